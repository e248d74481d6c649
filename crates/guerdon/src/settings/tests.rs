#![allow(clippy::type_complexity, reason = "a table reads best as a literal")]

use super::{Settings, Source, reference, table};
use std::ffi::OsString;
use std::time::Duration;

fn read(
    file: Option<&str>,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guerdon.toml");
    std::fs::write(&path, file.unwrap_or_default()).unwrap();
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let flags =
        flags.iter().map(|(key, value)| ((*key).into(), (*value).into(), Source::Flag("--set".into())));
    Settings::read(Some(&path), environment, flags.collect()).map_err(|error| error.to_string())
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = Some("[http]\nbodyTimeout = \"1s\"\nheaderTimeout = \"1s\"\nshutdownTimeout = \"1s\"\n");
    let environment =
        [("GUERDON_HTTP__BODY_TIMEOUT", "2s"), ("GUERDON_HTTP__HEADER_TIMEOUT", "2s"), ("HOME", "/")];
    let settings = read(file, &environment, &[("http.bodyTimeout", "3s")]).unwrap();
    assert_eq!(settings.http.body_timeout, Duration::from_secs(3));
    assert_eq!(settings.http.header_timeout, Duration::from_secs(2));
    assert_eq!(settings.http.shutdown_timeout, Duration::from_secs(1));
    assert_eq!(settings.http.connections_max, 10_000);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let long = "x".repeat(32);
    let table: &[(&str, &[(&str, &str)], &[&str])] = &[
        ("lisen = \"127.0.0.1:1\"", &[], &["lisen", "did you mean listen?"]),
        ("listen = 5", &[], &["listen", "guerdon.toml", "address and a port"]),
        ("[http]\nbodyTimeout = \"soon\"", &[], &["http.bodyTimeout", "duration"]),
        ("[http]\nbodyTimeout = true", &[], &["http.bodyTimeout"]),
        ("[http]\nbodyBytesMax = 5", &[], &["http.bodyBytesMax", "between"]),
        ("secret = \"hush", &[], &["guerdon.toml"]),
        ("", &[("GUERDON_DATABASE", "mysql://x")], &["database", "GUERDON_DATABASE"]),
        ("", &[("GUERDON_LOG__LEVEL", "warning")], &["log.level", "warn"]),
        ("a = 1\n\nb = ", &[], &["guerdon.toml", "line 3"]),
        ("", &[("GUERDON_DATABASE", "sqlite://x.db")], &["database", "plain path"]),
        ("", &[("GUERDON_NONSENSE", "1")], &["nonsense", "GUERDON_NONSENSE"]),
        ("", &[("GUERDON_USERS__UNKNOWN", "maybe")], &["users.unknown", "accept, reject"]),
        ("", &[("GUERDON_AUTH__SECRET", "short")], &["auth.secret", "32 bytes"]),
        ("", &[("GUERDON_IDENTITY", "headers")], &["identity", "token, trusted-headers"]),
        ("", &[("GUERDON_IDENTITY", "trusted-headers")], &["gateway.secret", "not set"]),
        ("", &[("GUERDON_GATEWAY__SECRET", "hush")], &["gateway.secret", "32 bytes"]),
        ("", &[("GUERDON_GATEWAY__WINDOW", "1h")], &["gateway.window", "1m"]),
        ("", &[("GUERDON_TLS__KEY", "key.pem")], &["tls.certificate", "not set"]),
        ("", &[("GUERDON_HTTP__TRUSTED_PROXIES", "10.0.0.0/99")], &["http.trustedProxies", "network"]),
        ("", &[("GUERDON_OUTBOX__SINK", "redis")], &["outbox.sink", "none, webhook, rabbitmq, kafka"]),
        ("", &[("GUERDON_OUTBOX__SINK", "kafka")], &["outbox.url", "not set", "kafka"]),
        ("", &[("GUERDON_OUTBOX__SECRET", "hush")], &["outbox.secret", "whsec_"]),
        ("", &[("GUERDON_OUTBOX__LEASE", "10ms")], &["outbox.lease", "1s"]),
        ("", &[("GUERDON_CONSUME__HANDLER", "webhook")], &["consume.webhookUrl", "not set"]),
        ("", &[("GUERDON_CONSUME__DATABASE", "mysql://x")], &["consume.database"]),
        ("", &[("GUERDON_LISTEN", "0.0.0.0:80")], &["auth.secret", "development secret"]),
        (
            "",
            &[
                ("GUERDON_LISTEN", "0.0.0.0:80"),
                ("GUERDON_AUTH__SECRET", &long),
                ("GUERDON_DEV__CLOCK_OFFSET", "1s"),
            ],
            &["dev.clockOffset", "loopback"],
        ),
    ];
    for (file, environment, words) in table {
        let said = read(Some(file), environment, &[]).expect_err(file);
        assert!(words.iter().all(|word| said.contains(word)), "{file:?} {environment:?}: {said}");
        assert!(!said.contains("hush"), "{said}");
    }
}

#[test]
fn secrets_and_passwords_are_not_shown() {
    let environment = [
        ("GUERDON_AUTH__SECRET", "a-very-secret-secret-of-good-length"),
        ("GUERDON_DATABASE", "postgres://me:hush@127.0.0.1/guerdon"),
        ("GUERDON_OUTBOX__SECRET", "whsec_aHVzaGh1c2hodXNoaHVzaGh1c2hodXNo"),
        ("GUERDON_CONSUME__URL", "amqp://me:hush@127.0.0.1:5672/%2f"),
        ("GUERDON_PROVIDERS__DEFAULT__SECRET", "whsec_aHVzaGh1c2hodXNoaHVzaGh1c2hodXNo"),
        ("GUERDON_PROVIDERS__DEFAULT__URL", "http://me:hush@127.0.0.1:1/"),
        ("GUERDON_PROVIDERS__B__URL", "http://127.0.0.1:1/?token=hush"),
        ("GUERDON_PROVIDERS__C__URL", "http://me:hu/sh?hush@127.0.0.1:1/"),
        ("GUERDON_OUTBOX__URL", "postgres://u@h/x?password=hush"),
        // A service of that name in Kubernetes sets these.
        ("GUERDON_PORT", "tcp://10.0.0.1:80"),
        ("GUERDON_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("GUERDON_SERVICE_HOST", "10.0.0.1"),
        ("GUERDON_SERVICE_PORT_HTTP", "80"),
    ];
    let settings = read(None, &environment, &[]).unwrap();
    let shown = format!("{:?}", settings.shown());
    assert!(!shown.contains("hush") && !shown.contains("aHVz") && !shown.contains("very-secret"), "{shown}");
    assert!(shown.contains("postgres://me:(hidden)@127.0.0.1/guerdon"), "{shown}");
    assert_eq!(settings.without_effect(), [] as [&str; 0]);
    assert_eq!(settings.providers.len(), 3);
    assert!(!format!("{:?}", settings.providers[2].secrets).contains("aHVz"));
}

#[test]
fn every_setting_can_be_set_by_the_environment() {
    for setting in table::SETTINGS {
        let key = setting.key.replace("<name>", "default");
        let name = table::environment_name(&key);
        assert_eq!(table::key_of_environment(name.strip_prefix("GUERDON_").unwrap()), key);
        if let Some(default) = setting.default {
            assert_eq!(setting.kind.check(default), Ok(()), "{key}: its default");
        }
    }
    assert_eq!(table::environment_name("services.gameData.url"), "GUERDON_SERVICES__GAME_DATA__URL");
}

#[test]
fn the_reference_is_up_to_date() {
    let written = include_str!("../../../../docs/configuration.md");
    assert_eq!(reference::markdown(), written, "run: guerdon config --reference > docs/configuration.md");
}
