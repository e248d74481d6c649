//! The configuration: what is accepted can be written out and read again, and no secret is shown.

use crate::{halves, says_why};
use guerdon::text::{Said, environment_name, settings};
use toml::Value;

/// Of a length that every secret may have, and unlike anything that is not one.
const SECRET: &str = "hush-hush-hush-hush-hush-hush-hush-hush";

pub(crate) fn hold(data: &[u8]) {
    let Some((file, environment)) = halves(data) else { return };
    let environment: Vec<_> = environment.lines().filter_map(|line| line.split_once('=')).collect();
    let environment: Vec<_> =
        environment.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    match settings(file, environment.clone()) {
        Ok(said) => again(&said),
        Err(reason) => says_why(&reason),
    }
    if !file.contains(SECRET)
        && environment.iter().all(|(name, text)| ![name, text].iter().any(|t| t.contains(SECRET)))
    {
        // A secret in the file, and one within an address; the input comes after both.
        hidden(&settings(&format!("auth.secret = \"{SECRET}\"\n{file}"), environment.clone()));
        for (key, scheme) in [("database", "postgres"), ("redis.url", "redis"), ("outbox.url", "amqp")] {
            let place = file.lines().next().unwrap_or_default();
            let set = (environment_name(key), format!("{scheme}://me:{SECRET}{place}@host:5432/name"));
            hidden(&settings("", vec![set]));
        }
    }
}

/// What was accepted, written to the environment (and providers, who have names of their own, to a file), is the same.
fn again(said: &[Said]) {
    let set = said.iter().filter(|said| !said.is_default);
    let (providers, others): (Vec<_>, Vec<_>) = set.partition(|said| said.key.starts_with("providers."));
    let file = providers.iter().map(|said| {
        let key: Vec<_> = said.key.split('.').map(|name| Value::from(name).to_string()).collect();
        format!("{} = {}\n", key.join("."), Value::from(said.text.as_str()))
    });
    let environment = others.iter().map(|said| (environment_name(&said.key), said.text.clone()));
    let found = settings(&file.collect::<String>(), environment.collect());
    assert_eq!(found.as_deref(), Ok(said), "written out, it is something else");
    for said in said.iter().filter(|said| said.is_secret) {
        assert_eq!(said.shown, "(hidden)", "{}", said.key);
    }
}

fn hidden(found: &Result<Vec<Said>, String>) {
    match found {
        Ok(said) => {
            for said in said {
                assert!(!said.shown.contains(SECRET), "{} shows a secret: {}", said.key, said.shown);
            }
        }
        Err(reason) => assert!(!reason.contains(SECRET), "a secret is in {reason}"),
    }
}
