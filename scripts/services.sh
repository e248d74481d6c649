# Real services for tests and benchmarks, on private ports and folders. Sourced, not run.
# shellcheck shell=bash

services_folder=""
missing=()
broker_pids=()

# need PROGRAM PACKAGE: installs Debian's package where the program is not there; notes what cannot be had.
need() {
  [ -n "$(find_program "$1")" ] && return 0
  install_package "$2"
  [ -n "$(find_program "$1")" ] && return 0
  missing+=("$2")
  return 1
}

install_package() {
  echo "== installing $1"
  local sudo=""
  if [ "$(id -u)" != 0 ]; then sudo="sudo -n"; fi
  command -v apt-get >/dev/null || return 1
  # A server of the package's own is neither wanted nor started.
  if [ "$1" = postgresql ] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    $sudo mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  { $sudo apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$1" ||
    { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$1"; }
  } >"$services_folder/install-$1.log" 2>&1 </dev/null || tail -5 "$services_folder/install-$1.log"
}

# Debian keeps PostgreSQL's programs apart from the PATH.
find_program() {
  command -v "$1" || ls /usr/lib/postgresql/*/bin/"$1" 2>/dev/null | sort -V | tail -1
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null ||
    echo $((20000 + RANDOM % 20000))
}

# PostgreSQL refuses to run as root.
as_postgres() {
  if [ "$(id -u)" = 0 ]; then (cd / && setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"); else "$@"; fi
}

services_begin() {
  export DEBIAN_FRONTEND=noninteractive
  services_folder=$(mktemp -d "${TMPDIR:-/tmp}/guerdon-services.XXXXXX")
  chmod 755 "$services_folder"
  trap services_end EXIT
}

services_end() {
  local broker
  for broker in "${broker_pids[@]}"; do kill -KILL -- "-$broker" 2>/dev/null; done
  # The name service of each RabbitMQ, the tests' own included, is known by its data's place.
  for broker in $(pgrep -x epmd); do
    if tr '\0' '\n' <"/proc/$broker/environ" 2>/dev/null | grep -q "^HOME=$services_folder"; then kill "$broker"; fi
  done
  [ -n "${redis_pid:-}" ] && kill "$redis_pid" 2>/dev/null
  if [ -f "$services_folder/postgres/data/postmaster.pid" ]; then
    as_postgres "$(find_program pg_ctl)" -D "$services_folder/postgres/data" -m immediate stop >/dev/null 2>&1
  fi
  rm -rf "$services_folder"
}

# Sets TEST_POSTGRES_URL.
start_postgres() {
  need pg_ctl postgresql || return 1
  local data="$services_folder/postgres" port
  mkdir "$data"
  if [ "$(id -u)" = 0 ]; then chown postgres "$data"; fi
  port=$(free_port)
  as_postgres "$(find_program initdb)" --auth=trust --username=postgres -D "$data/data" >"$services_folder/initdb.log" 2>&1 &&
    as_postgres "$(find_program pg_ctl)" -D "$data/data" -l "$data/log" -w \
      -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200 ${POSTGRES_OPTIONS:-}" \
      start >/dev/null || { missing+=("a running postgresql"); tail -5 "$services_folder/initdb.log" "$data/log"; return 1; }
  export TEST_POSTGRES_URL="postgres://postgres@127.0.0.1:$port/postgres"
  echo "== PostgreSQL $(as_postgres "$(find_program postgres)" --version | awk '{print $3}') on port $port"
}

# Sets TEST_REDIS_URL. Its log is written on every change, as a shop would want it that cannot lose any.
start_redis() {
  need redis-server redis-server || return 1
  local port
  port=$(free_port)
  mkdir "$services_folder/redis"
  redis-server --port "$port" --bind 127.0.0.1 --dir "$services_folder/redis" --appendonly yes --save "" \
    >"$services_folder/redis/log" 2>&1 &
  redis_pid=$!
  for _ in $(seq 100); do
    if redis-cli -p "$port" ping 2>/dev/null | grep -q PONG; then break; fi
    sleep 0.1
  done
  export TEST_REDIS_URL="redis://127.0.0.1:$port/"
  echo "== Redis $(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/') on port $port, appendfsync everysec"
}

# A port whose next two are free as well.
free_ports() {
  local port
  for _ in $(seq 50); do
    port=$((20000 + RANDOM % 10000))
    if python3 - "$port" <<'PORTS' 2>/dev/null; then echo "$port"; return 0; fi
import socket, sys
held = [socket.socket() for _ in range(3)]
for step, one in enumerate(held):
    one.bind(("127.0.0.1", int(sys.argv[1]) + step))
PORTS
  done
  return 1
}

# start_broker KIND: in a process group of its own, its data in the services' folder. Sets `port`.
start_broker() {
  port=$(free_ports) || return 1
  setsid scripts/broker "$1" "$services_folder/$1" "$port" >"$services_folder/$1.log" 2>&1 &
  broker_pids+=($!)
  disown
  for _ in $(seq 300); do
    if (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  missing+=("a running $1")
  tail -5 "$services_folder/$1.log"
  return 1
}

# Sets TEST_RABBITMQ_URL.
start_rabbitmq() {
  local port
  need rabbitmqctl rabbitmq-server || return 1
  start_broker rabbitmq || return 1
  export TEST_RABBITMQ_URL="amqp://guest:guest@127.0.0.1:$port/%2f"
  echo "== RabbitMQ $(dpkg-query -W -f='${Version}' rabbitmq-server) on port $port"
}

# Kafka's jars, kept between runs.
fetch_kafka() {
  local version
  need mvn maven || return 1
  version=$(sed -n 's/^  <version>\(.*\)<\/version>/\1/p' scripts/kafka/pom.xml)
  export KAFKA_JARS="${XDG_CACHE_HOME:-$HOME/.cache}/guerdon/kafka-$version"
  [ -e "$KAFKA_JARS/complete" ] && return 0
  echo "== fetching Apache Kafka $version"
  mkdir -p "$KAFKA_JARS"
  if mvn -q -B -f scripts/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$KAFKA_JARS" \
    >"$services_folder/fetch-kafka.log" 2>&1 </dev/null; then
    touch "$KAFKA_JARS/complete"
    return 0
  fi
  tail -5 "$services_folder/fetch-kafka.log"
  missing+=("Apache Kafka")
  return 1
}

# Schemathesis, kept between runs. Sets SCHEMATHESIS.
fetch_schemathesis() {
  local version=4.32.5 folder
  need python3 python3 || return 1
  folder="${XDG_CACHE_HOME:-$HOME/.cache}/guerdon/schemathesis-$version"
  export SCHEMATHESIS="$folder/bin/schemathesis"
  [ -x "$SCHEMATHESIS" ] && return 0
  echo "== fetching schemathesis $version"
  python3 -c 'import ensurepip' 2>/dev/null || install_package python3-venv
  if { python3 -m venv "$folder" && "$folder/bin/pip" install -q "schemathesis==$version"; } \
    >"$services_folder/fetch-schemathesis.log" 2>&1 </dev/null; then
    return 0
  fi
  tail -5 "$services_folder/fetch-schemathesis.log"
  rm -rf "$folder"
  missing+=("schemathesis")
  return 1
}

# Chromium, and what drives it in tests/browser.
fetch_browser() {
  need chromium chromium || return 1
  need node nodejs || return 1
  need npm npm || return 1
  echo "== $(chromium --version 2>/dev/null | awk '{print $1, $2}'), node $(node --version)"
  if npm ci --prefix tests/browser --no-audit --no-fund >"$services_folder/fetch-browser.log" 2>&1 </dev/null; then
    return 0
  fi
  tail -5 "$services_folder/fetch-browser.log"
  missing+=("playwright-core and axe-core")
  return 1
}

# Sets TEST_KAFKA_URL.
start_kafka() {
  local port
  fetch_kafka || return 1
  start_broker kafka || return 1
  export TEST_KAFKA_URL="kafka://127.0.0.1:$port"
  echo "== Apache Kafka $(basename "$KAFKA_JARS" | sed 's/kafka-//') on port $port"
}
