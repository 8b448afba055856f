//! The commands of README.md, as they stand there.

/// A line that a reader types.
#[derive(Debug, PartialEq)]
pub struct Line {
    /// The command, which is kubectl or curl.
    pub command: String,
    /// Whether it stands behind a prompt; else a program prints it as something to try.
    pub is_typed: bool,
    /// What README.md shows below it, up to an empty line.
    pub output: String,
}

/// The commands of a section, in their order.
pub fn commands(section: &str) -> Vec<Line> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    read(&std::fs::read_to_string(path).unwrap(), section)
}

fn read(text: &str, section: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let (mut is_here, mut in_block, mut is_below) = (false, false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
            is_below = false;
        } else if !in_block {
            is_here = line.strip_prefix("## ").map_or(is_here, |title| title == section);
        } else if is_here {
            let typed = line.strip_prefix("$ ");
            let command = typed.unwrap_or(line).trim();
            if ["kubectl ", "curl "].iter().any(|program| command.starts_with(program)) {
                let (command, is_typed) = (command.to_owned(), typed.is_some());
                found.push(Line { command, is_typed, output: String::new() });
                is_below = true;
            } else if typed.is_some() || line.is_empty() {
                is_below = false;
            } else if let Some(last) = found.last_mut().filter(|_| is_below) {
                last.output += line;
                last.output.push('\n');
            }
        }
    }
    found
}

#[test]
fn commands_are_found_with_what_they_print() {
    let text = "## A\n```console\n$ cargo run\nprinted\n  kubectl get a\n  curl -s b\n\nnothing\n```\nkubectl get no\n\
                ```console\n$ kubectl get c -p '{}'\nNAME\nc\n$ cargo test\nprinted\n```\n## B\n```\n$ kubectl get d\n```\n";
    let line = |command: &str, is_typed, output: &str| Line {
        command: command.to_owned(),
        is_typed,
        output: output.to_owned(),
    };
    let wanted = [
        line("kubectl get a", false, ""),
        line("curl -s b", false, ""),
        line("kubectl get c -p '{}'", true, "NAME\nc\n"),
    ];
    assert_eq!(read(text, "A"), wanted);
    assert_eq!(read(text, "B"), [line("kubectl get d", true, "")]);
    assert_eq!((commands("Try it").len(), commands("Run it").len()), (8, 1));
}
