// Server-sent events, connected again after a pause that grows and is never the same for everybody.

const PAUSE_MIN = 500;
const PAUSE_MAX = 30_000;

/**
 * Follows a stream until `stop` or `signal`.
 *   on: { summary(data) {…} }  by the event's name; data is parsed JSON
 *   state(name)                "connecting" | "live" | "waiting"
 *   until(data, name)          true ends it: the last frame has come
 *   failed(times)              it could not be had so many times in a row
 *   whileHidden                false lets go of it while nobody looks: a browser has few connections for one server
 */
export function follow(address, { on, state = () => {}, until = () => false, failed = () => {}, whileHidden = true, signal }) {
  let source = null;
  let timer = null;
  let failures = 0;
  let stopped = false;

  function stop() {
    stopped = true;
    clearTimeout(timer);
    source?.close();
    document.removeEventListener("visibilitychange", seen);
  }

  function seen() {
    clearTimeout(timer);
    source?.close();
    if (document.hidden) state("waiting");
    else connect();
  }

  function again() {
    source?.close();
    if (stopped) return;
    state("waiting");
    const most = Math.min(PAUSE_MAX, PAUSE_MIN * 2 ** failures);
    failures += 1;
    failed(failures);
    timer = setTimeout(connect, most / 2 + Math.random() * (most / 2));
  }

  function connect() {
    if (stopped) return;
    state("connecting");
    source = new EventSource(address);
    source.addEventListener("open", () => state("live"));
    source.addEventListener("error", again);
    for (const [name, listener] of Object.entries(on)) {
      source.addEventListener(name, (event) => {
        failures = 0;
        const data = JSON.parse(event.data);
        if (until(data, name)) stop();
        listener(data);
      });
    }
  }

  if (!whileHidden) document.addEventListener("visibilitychange", seen);
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  else connect();
  return { stop };
}
