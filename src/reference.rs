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
    let shared: Vec<_> = cli.find_subcommand("run").into_iter().flat_map(Command::get_arguments).collect();
    for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
        section(&mut page, command, &shared);
    }
    page
}

/// One command's flags; `dev` has those of `run` too, which are `shared`.
fn section(page: &mut String, command: &Command, shared: &[&Arg]) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a String does not fail.
    let _ = write!(page, "\n## solar-controller {}\n\n{about}.\n\n", command.get_name());
    let is_dev = command.get_name() == "dev";
    if is_dev {
        page.push_str(
            "It takes the flags of `run` too, but for `--kubeconfig` and `--context`, and these:\n\n",
        );
    }
    page.push_str("| flag | variable | default | what it does |\n| --- | --- | --- | --- |\n");
    let is_told = |arg: &&Arg| is_dev && shared.iter().any(|told| told.get_id() == arg.get_id());
    command.get_arguments().filter(|arg| !is_told(arg)).for_each(|arg| row(page, arg));
}

fn row(page: &mut String, arg: &Arg) {
    let takes_value = !matches!(arg.get_action(), ArgAction::SetTrue);
    let value = arg.get_value_names().filter(|_| takes_value).map(|names| names.join(" "));
    let flag = match (arg.get_long(), value) {
        (Some(long), Some(value)) if arg.is_require_equals_set() => format!("`--{long}={value}`"),
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
