//! `/metrics` as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use solar_controller::telemetry::metrics::{FAMILIES, specimen};

use crate::looks::until_available;
use crate::pipeline::settled;
use crate::program::get;
use crate::world::{Kind, World};

/// Samples by name and labels, and the type of each family.
pub struct Scraped {
    /// Type by family.
    pub types: BTreeMap<String, String>,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

impl Scraped {
    /// Reads the text format.
    pub fn read(text: &str) -> Self {
        let mut scraped = Self { types: BTreeMap::new(), samples: Vec::new() };
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(comment) = line.strip_prefix("# ") {
                if let Some((name, kind)) =
                    comment.strip_prefix("TYPE ").and_then(|rest| rest.split_once(' '))
                {
                    scraped.types.insert(name.to_owned(), kind.to_owned());
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            let labels = labels.map(|label| {
                let (name, value) = label.split_once('=').unwrap();
                (name.to_owned(), value.trim_matches('"').to_owned())
            });
            scraped.samples.push((name.to_owned(), labels.collect(), value.parse().unwrap()));
        }
        scraped
    }

    /// The sum of all samples of `name` that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |of: &BTreeMap<String, String>| {
            labels.iter().all(|(name, value)| of.get(*name).is_some_and(|own| own == value))
        };
        self.samples.iter().filter(|(own, of, _)| own == name && has(of)).map(|(.., value)| value).sum()
    }

    /// The names of the labels of a family's samples, without the bounds of buckets.
    pub fn labels(&self, family: &str) -> BTreeSet<String> {
        let own = self.samples.iter().filter(|(name, ..)| {
            name.strip_prefix(family).is_some_and(|rest| matches!(rest, "" | "_bucket" | "_sum" | "_count"))
        });
        own.flat_map(|(_, labels, _)| labels.keys().cloned()).filter(|label| label != "le").collect()
    }

    /// The values of a label.
    pub fn values(&self, name: &str, label: &str) -> BTreeSet<String> {
        let own = self.samples.iter().filter(|(own, ..)| own == name);
        own.filter_map(|(_, labels, _)| labels.get(label).cloned()).collect()
    }
}

/// What `promtool check metrics` has against this text; `Ok` when it has nothing.
fn check(promtool: &Path, text: &str) -> Result<(), String> {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(said).unwrap()) }
}

pub fn promtool_has_nothing_against_the_metrics_of_a_working_controller(kind: Kind) {
    let Some(promtool) = test_bed::tool("promtool") else { return };
    let Some(world) = World::new(kind, "promtool") else { return };
    world.install_examples();
    world.install_descriptor();
    let program = world.run("run", &[]);
    settled(&world, &program.log);
    until_available(&world, &program.log, "described-1.0.0");
    let (code, text) = get(&program.metrics, "/metrics");
    assert_eq!(code, 200);
    assert!(text.contains("solar_renders_total{"), "{text}");
    assert_eq!(check(&promtool, &text), Ok(()));
    // It does look: a counter must end in _total.
    let renamed = text.replace("solar_renders_total", "solar_renders");
    let complaint = check(&promtool, &renamed).unwrap_err();
    assert!(complaint.contains("solar_renders"), "{complaint}");
}

#[test]
fn promtool_has_nothing_against_any_metric_of_the_table() {
    let Some(promtool) = test_bed::tool("promtool") else { return };
    let text = specimen("some").unwrap();
    let scraped = Scraped::read(&text);
    for family in FAMILIES {
        assert_eq!(scraped.types.get(family.name).map(String::as_str), Some(family.measure.as_str()));
        let labels: BTreeSet<String> = family.labels.iter().map(ToString::to_string).collect();
        assert_eq!(scraped.labels(family.name), labels, "{}", family.name);
    }
    assert_eq!(check(&promtool, &text), Ok(()));
    let renamed = text.replace("solar_watch_restarts_total", "solar_watch_restarts");
    let complaint = check(&promtool, &renamed).unwrap_err();
    assert!(complaint.contains("solar_watch_restarts"), "{complaint}");
}
