//! The reference pages of docs/, made of what the program itself uses.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::cli::Cli;
use crate::telemetry::metrics;

/// The pages, by file name.
pub fn pages() -> Vec<(&'static str, String)> {
    vec![("flags.md", flags()), ("metrics.md", metrics::page())]
}

/// Writes the pages into `directory`.
///
/// # Errors
/// Says which file cannot be written.
pub fn write(directory: &Path) -> Result<(), String> {
    for (name, page) in pages() {
        let path = directory.join(name);
        std::fs::write(&path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn flags() -> String {
    let mut page = "# Flags\n\n<!-- Made by `make docs` from the command line itself; do not edit. -->\n\n\
        Every flag can be given by the variable beside it; the flag wins. A wrong value is refused at the start.\n"
        .to_owned();
    let cli = Cli::command();
    for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
        section(&mut page, command);
    }
    page
}

fn section(page: &mut String, command: &Command) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a String does not fail.
    let _ = write!(page, "\n## solar-controller {}\n\n{about}.\n\n", command.get_name());
    page.push_str("| flag | variable | default | what it does |\n| --- | --- | --- | --- |\n");
    let own = command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"));
    own.for_each(|arg| row(page, arg));
}

fn row(page: &mut String, arg: &Arg) {
    let takes_value = !matches!(arg.get_action(), ArgAction::SetTrue);
    let value = arg.get_value_names().filter(|_| takes_value).map(|names| names.join(" "));
    let flag = match (arg.get_long(), value) {
        (Some(long), Some(value)) => format!("`--{long} {value}`"),
        (Some(long), None) => format!("`--{long}`"),
        (None, value) => format!("`{}`", value.unwrap_or_default()),
    };
    let env = arg.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let default = if takes_value { defaults.join(",") } else { String::new() };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes_value && !values.is_empty() {
        let _ = write!(help, ": {}", values.join(", "));
    }
    let _ = writeln!(page, "| {flag} | {env} | {default} | {help} |");
}
