//! The pages of `docs/` use the words of the code: conditions, reasons, events, finalizers and annotations. None is left
//! out, and none is made up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PREFIX: &str = "solar.opendefense.cloud/";

fn path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of `docs/` by file name.
fn pages() -> BTreeMap<String, String> {
    let entries = fs::read_dir(path("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(&path))).collect()
}

/// A constant of a source file.
#[derive(Debug)]
struct Constant {
    /// The innermost module that was opened before it; empty at the top.
    module: String,
    name: String,
    value: String,
}

/// Every text constant of a source file.
fn constants(file: &str) -> Vec<Constant> {
    let source = read(&path(file));
    let (mut module, mut constants) = (String::new(), Vec::new());
    for line in source.lines().map(str::trim) {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        if let Some(name) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {")) {
            name.clone_into(&mut module);
        }
        let constant = line.strip_prefix("const ").and_then(|rest| rest.split_once(": &str = \""));
        if let Some((name, value)) = constant {
            let value = value.strip_suffix("\";").unwrap_or_else(|| panic!("{file}: {line}"));
            let (name, value) = (name.to_owned(), value.to_owned());
            constants.push(Constant { module: module.clone(), name, value });
        }
    }
    assert!(!constants.is_empty(), "{file} has none");
    assert_eq!(
        constants.len(),
        source.matches(": &str =").count(),
        "{file} has some that are not understood"
    );
    constants
}

/// What stands between backticks in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What stands between backticks on a page, code blocks aside.
fn words(page: &str) -> BTreeSet<&str> {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.flat_map(quoted).collect()
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim().trim_matches('|').split('|').map(str::trim)
}

/// What stands between backticks in the columns `title` of all tables of a page.
fn column<'a>(page: &'a str, title: &str) -> BTreeSet<&'a str> {
    let (mut found, mut at) = (BTreeSet::new(), None);
    let mut in_table = false;
    for line in page.lines() {
        let is_row = line.starts_with('|');
        if is_row && !in_table {
            at = cells(line).position(|cell| cell == title);
        } else if is_row && let Some(cell) = at.and_then(|at| cells(line).nth(at)) {
            found.extend(quoted(cell));
        }
        in_table = is_row;
    }
    found
}

/// Every `.rs` file below `folder`.
fn sources(folder: &Path, to: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            to.push(read(&path));
        }
    }
}

/// The reasons of all events that the controller records.
fn events() -> BTreeSet<String> {
    let events = constants("crates/solar-core/src/target/events.rs");
    let mut found: BTreeSet<String> = events.into_iter().map(|constant| constant.value).collect();
    let mut texts = Vec::new();
    sources(&path("src"), &mut texts);
    sources(&path("crates/solar-core/src"), &mut texts);
    for text in &texts {
        for before in ["reason: \"", " event(\""] {
            let reasons = text.split(before).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(reasons.map(ToOwned::to_owned));
        }
    }
    found
}

#[test]
fn every_condition_stands_on_a_page_with_all_its_reasons() {
    let pages = pages();
    let mut by_module: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for constant in constants("crates/solar-api/src/conditions.rs") {
        by_module.entry(constant.module).or_default().insert(constant.value);
    }
    for (module, reasons) in &by_module {
        let lacks = |page: &str| {
            let words = words(page);
            reasons.iter().filter(|reason| !words.contains(reason.as_str())).cloned().collect::<Vec<_>>()
        };
        let lacking: BTreeMap<_, _> = pages.iter().map(|(name, page)| (name, lacks(page))).collect();
        let best = lacking.iter().min_by_key(|(_, lacks)| lacks.len());
        assert!(lacking.values().any(Vec::is_empty), "{module}: the best page is {best:?}");
    }
}

#[test]
fn no_page_has_a_reason_that_is_not_there() {
    let constants = constants("crates/solar-api/src/conditions.rs");
    let known: BTreeSet<&str> = constants.iter().map(|constant| constant.value.as_str()).collect();
    let pages = pages();
    let told: BTreeMap<_, _> = pages.iter().map(|(name, page)| (name, column(page, "reason"))).collect();
    assert!(told.values().flatten().count() > known.len() / 2, "the tables were not found: {told:?}");
    for (page, reasons) in told {
        let unknown: Vec<_> = reasons.difference(&known).collect();
        assert!(unknown.is_empty(), "{page}: {unknown:?}");
    }
}

#[test]
fn the_pages_have_every_event_and_no_other() {
    let pages = pages();
    let told: BTreeSet<String> =
        pages.values().flat_map(|page| column(page, "event")).map(ToOwned::to_owned).collect();
    assert_eq!(told, events());
}

#[test]
fn the_pages_have_every_finalizer_and_annotation() {
    let pages = pages();
    let names = constants("crates/solar-api/src/names.rs");
    let with = |end: &str| -> BTreeSet<&str> {
        let names = names.iter().filter(|constant| constant.name.ends_with(end));
        names.map(|constant| constant.value.as_str()).collect()
    };
    let finalizers: BTreeSet<&str> =
        with("_FINALIZER").into_iter().map(|name| name.strip_prefix(PREFIX).unwrap()).collect();
    assert_eq!(column(&pages["protection.md"], "finalizer"), finalizers);
    let annotations = with("_ANNOTATION");
    assert_eq!(finalizers.len() + annotations.len(), names.len(), "others are left out");
    let told: BTreeSet<&str> = pages.values().flat_map(|page| words(page)).collect();
    let missing: Vec<_> = annotations.difference(&told).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_link_between_pages_leads_nowhere() {
    for (name, page) in pages() {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_outside = link.contains("://") || file.is_empty();
            assert!(is_outside || path("docs").join(file).exists(), "{name}: {link}");
        }
    }
}
