//! Get and list.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde::{Deserialize, Serialize};

use super::{Outcome, Target, filter::Filter};
use crate::{
    status::ApiError,
    store::{
        State,
        object::{Key, Object},
        table::Table,
    },
};

/// Reads one object, as it is: at least as new as the resource version that is asked for.
pub(crate) fn get(state: &State, target: &Target, version: &str) -> Result<Outcome, ApiError> {
    if let Some(asked) = watch_version(version)?.filter(|asked| *asked > state.revision) {
        return Err(too_new(asked, state.revision));
    }
    let key = Key::new(&target.namespace, &target.name);
    state
        .get(target.resource.table, &key)
        .map(|object| Outcome::one(200, object.clone(), Vec::new()))
        .ok_or_else(|| ApiError::not_found(target.resource.subject(), &target.name))
}

/// Parameters of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    pub limit: usize,
    pub continues: String,
    pub resource_version: String,
    pub version_match: String,
    /// How many revisions old the list may be; a fault.
    pub stale: u64,
}

/// Where the next page of a list begins.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    /// The revision that the whole list shows.
    rv: u64,
    /// The last key of the page before.
    ns: String,
    name: String,
    /// How many objects came before.
    seen: usize,
}

/// What a list shows, and where it begins.
struct Start {
    revision: u64,
    after: Option<Key>,
    seen: usize,
}

impl Start {
    fn at(revision: u64) -> Self {
        Self { revision, after: None, seen: 0 }
    }
}

/// How many objects a namespace (empty: all) had before the changes to undo.
fn total(table: &Table, namespace: &str, undo: &BTreeMap<Key, Option<Arc<Object>>>) -> usize {
    let concerned = undo.iter().filter(|(key, _)| namespace.is_empty() || *key.namespace == *namespace);
    let (mut gone, mut new) = (0, 0);
    for (key, old) in concerned {
        match (old.is_some(), table.get(key).is_some()) {
            (true, false) => gone += 1,
            (false, true) => new += 1,
            _ => {}
        }
    }
    (table.count_in(namespace) + gone).saturating_sub(new)
}

/// Lists objects as they are, or as they were at the revision of a continued or exact list.
pub(crate) fn list(
    state: &State,
    target: &Target,
    filter: &Filter,
    options: &ListOptions,
) -> Result<Outcome, ApiError> {
    let table = state.tables.get(&target.resource.table).ok_or_else(ApiError::unknown_path)?;
    let Start { revision, after, seen } = start(state, target, options)?;
    if revision < table.floor {
        return Err(too_old(options));
    }
    let undo = table.undo(revision);
    let mut objects = Vec::new();
    let mut more = false;
    walk(table, filter, after.as_ref(), &undo, |object| {
        if options.limit > 0 && objects.len() == options.limit {
            more = true;
            return false;
        }
        objects.push(object.clone());
        true
    });
    let continues = objects.last().filter(|_| more).map(|last| {
        let token = Continue {
            rv: revision,
            ns: last.key.namespace.to_string(),
            name: last.key.name.to_string(),
            seen: seen + objects.len(),
        };
        BASE64.encode(serde_json::to_vec(&token).unwrap_or_default())
    });
    let remaining = (more && filter.takes_all())
        .then(|| total(table, &filter.namespace, &undo).saturating_sub(seen + objects.len()));
    Ok(Outcome::Many { objects, revision, continues, remaining })
}

/// The revision that a list shows, and the key behind which it begins.
fn start(state: &State, target: &Target, options: &ListOptions) -> Result<Start, ApiError> {
    if !options.continues.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let invalid = || ApiError::bad_request("continue key is not valid: the token is not from this list");
        let bytes = BASE64.decode(&options.continues).map_err(|_| invalid())?;
        let token: Continue = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        // Like the real server's, a token holds a key and no kind: another list goes on behind the same key.
        let fits =
            (target.namespace.is_empty() || *token.ns == *target.namespace) && token.rv <= state.revision;
        return if fits {
            Ok(Start { revision: token.rv, after: Some(Key::new(&token.ns, &token.name)), seen: token.seen })
        } else {
            Err(invalid())
        };
    }
    let asked = parse_version(&options.resource_version)?;
    match (asked, options.version_match.as_str()) {
        (Some(asked), _) if asked > state.revision => Err(too_new(asked, state.revision)),
        (Some(asked), "Exact") => Ok(Start::at(asked)),
        (Some(asked), _) if options.stale > 0 => {
            let floor = state.tables.get(&target.resource.table).map_or(0, |t| t.floor);
            Ok(Start::at(state.revision.saturating_sub(options.stale).max(asked).max(floor)))
        }
        _ => Ok(Start::at(state.revision)),
    }
}

/// Reads a resource version; empty is none.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| ApiError::bad_request(format!("invalid resource version: {}", no_number(text))))
}

/// As [`parse_version`], for a watch or one object: the real server takes its own parser's error for a fault of its own.
pub(crate) fn watch_version(text: &str) -> Result<Option<u64>, ApiError> {
    parse_version(text).map_err(|_| ApiError::new(500, "", no_number(text)))
}

fn no_number(text: &str) -> String {
    format!(
        "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
    )
}

/// The answer to a resource version that was not given out yet.
pub(crate) fn too_new(asked: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    ApiError::new(504, "Timeout", message)
        .cause("ResourceVersionTooLarge", "", "Too large resource version")
        .retry_after(1)
}

fn too_old(options: &ListOptions) -> ApiError {
    if options.continues.is_empty() {
        ApiError::expired("The resourceVersion for the provided list is too old.")
    } else {
        ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter.",
        )
    }
}

/// Shows the objects that fit to `visit` in the order of their keys until it answers `false`.
fn walk(
    table: &Table,
    filter: &Filter,
    after: Option<&Key>,
    undo: &BTreeMap<Key, Option<Arc<Object>>>,
    mut visit: impl FnMut(&Arc<Object>) -> bool,
) {
    let behind = |key: &Key| after.is_none_or(|a| key > a);
    let mut past = undo.iter().filter(|(key, _)| behind(key)).peekable();
    let mut show = |object: &Arc<Object>| !filter.matches(object) || visit(object);
    for object in candidates(table, filter, after) {
        while let Some((_, old)) = past.next_if(|(key, _)| **key < object.key) {
            if let Some(old) = old
                && !show(old)
            {
                return;
            }
        }
        let shown = match past.next_if(|(key, _)| **key == object.key) {
            Some((_, Some(old))) => show(old),
            Some((_, None)) => true,
            None => show(object),
        };
        if !shown {
            return;
        }
    }
    for (_, old) in past {
        if let Some(old) = old
            && !show(old)
        {
            return;
        }
    }
}

/// The objects that can fit, by the narrowest way that the table knows.
fn candidates<'a>(
    table: &'a Table,
    filter: &'a Filter,
    after: Option<&'a Key>,
) -> Box<dyn Iterator<Item = &'a Arc<Object>> + 'a> {
    let behind = move |key: &&Key| after.is_none_or(|a| *key > a);
    if let Some(name) = filter.name()
        && !(filter.namespace.is_empty() && table.resource.namespaced)
    {
        let key = Key::new(&filter.namespace, name);
        return Box::new(table.get(&key).into_iter().filter(move |o| behind(&&o.key)));
    }
    let keys =
        filter.wanted().filter_map(|(field, value)| table.lookup(field, value)).min_by_key(|keys| keys.len());
    match keys {
        Some(keys) => Box::new(keys.iter().filter(behind).filter_map(|key| table.get(key))),
        None => Box::new(table.range(&filter.namespace, after)),
    }
}
