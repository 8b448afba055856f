//! `/metrics` as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

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
