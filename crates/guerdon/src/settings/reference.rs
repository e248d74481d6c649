//! `docs/configuration.md`, made from the table.

use super::table::{SETTINGS, Setting, State, environment_name};

pub(crate) fn markdown() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         Made from the code by `guerdon config --reference`; a test compares the two.\n\n\
         A setting can come from a flag, the environment, `guerdon.toml` in the working folder (or the file that \
         `--config` names), or its default; the first of these wins. Section and name are joined by `.` in the file and \
         by `__` in the environment. Durations are written `250ms`, `5s`, `1m`, `2h`, `1d`. An unknown setting or a bad \
         value stops the start with a message that names it. `guerdon config` prints what is in force, with secrets \
         hidden.\n\n\
         ```toml\n\
         listen = \"127.0.0.1:8080\"\n\
         database = \"postgres://guerdon@127.0.0.1/guerdon\"\n\n\
         [auth]\n\
         issuer = \"https://login.example\"\n\
         ```\n",
    );
    section(&mut text, "In use", State::Used);
    section(&mut text, "Known, without effect yet", State::Later);
    text
}

fn section(text: &mut String, title: &str, state: State) {
    let head = "| setting | environment | value | default | |\n|---|---|---|---|---|\n";
    let rows: String = SETTINGS.iter().filter(|setting| setting.state == state).map(row).collect();
    text.extend(["\n## ", title, "\n\n", head, &rows]);
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        Some(_) if setting.secret => "a development secret".into(),
        Some(default) => format!("`{default}`"),
        None => "–".into(),
    };
    let environment = environment_name(setting.key).replace("<NAME>", "…");
    format!(
        "| `{}` | `{environment}` | {} | {default} | {} |\n",
        setting.key,
        setting.kind.describe(),
        setting.about
    )
}
