//! From a routed request to the operation that serves it.

use std::{sync::Arc, time::Duration};

use http::{Method, Response, header};
use serde_json::Value;

use super::{
    Answer, Incoming, ResponseBody, TransportError,
    accept::{Format, Shape},
    input,
    path::Route,
    query::Query,
    render,
};
use crate::{
    discovery,
    field::FieldError,
    meta::{self, Json},
    ops::{
        Failure, Outcome, Target, WriteOptions, create,
        delete::{self, DeleteOptions},
        filter::Filter,
        read, update,
    },
    patch::PatchBody,
    request::Verb,
    resource::Builtin,
    reviews,
    server::Inner,
    status::ApiError,
    watch::{WatchOptions, WatchStream},
};

/// Carries a request out.
pub(crate) fn dispatch(inner: &Arc<Inner>, incoming: Incoming) -> Answer {
    let format = Format::of(&incoming.request);
    let served = serve(inner, incoming, format);
    if let Some(why) = inner.storage_failure() {
        // What was done may not have been kept: nobody may rely on it.
        return Ok(render::error(&ApiError::new(500, "InternalError", why), format));
    }
    match served {
        Ok(response) => Ok(response),
        Err(Failure::Api(error)) => Ok(render::error(&error, format)),
        Err(Failure::Fenced) => Err(TransportError::Fenced),
    }
}

fn serve(inner: &Arc<Inner>, incoming: Incoming, format: Format) -> Result<Response<ResponseBody>, Failure> {
    let (resource, version) = match &incoming.route {
        Route::Unknown => return Err(ApiError::unknown_path().into()),
        Route::Other(segments) => {
            return Ok(discovery::serve(inner, segments, &incoming.request, format)?);
        }
        Route::Resource { resource, version } => (resource.clone(), *version),
    };
    let info = incoming.info.clone();
    let target = Target {
        namespace: info.namespace.clone(),
        name: incoming.name.clone(),
        status: &*info.subresource == "status",
        info,
        resource,
        version,
    };
    check_place(&target)?;
    if incoming.too_large {
        return Err(ApiError::too_large().into());
    }
    if format.shape == Shape::Unknown {
        return Err(ApiError::not_acceptable().into());
    }
    let query = Query::of(&incoming.request);
    if target.info.verb == Verb::Watch {
        return watch(inner, &target, &incoming, &query, format);
    }
    let outcome = operate(inner, &target, &incoming, &query)?;
    Ok(render::outcome(inner, &target, outcome, format, query.text("includeObject")))
}

/// Whether the path of a request is one that its resource has.
fn check_place(target: &Target) -> Result<(), ApiError> {
    let info = &target.info;
    match &*info.subresource {
        "" => {}
        "status" if target.has_status() => {}
        _ => return Err(ApiError::unknown_path()),
    }
    if !target.resource.namespaced && !target.namespace.is_empty() {
        return Err(ApiError::unknown_path());
    }
    if !target.resource.verbs().contains(&info.verb.as_str()) {
        return Err(ApiError::method_not_allowed());
    }
    let everywhere = target.resource.namespaced && target.namespace.is_empty();
    match info.verb {
        Verb::List | Verb::Watch => Ok(()),
        Verb::Create if everywhere && target.name.is_empty() => Err(ApiError::method_not_allowed()),
        Verb::DeleteCollection if everywhere => Err(ApiError::method_not_allowed()),
        _ if everywhere => Err(ApiError::unknown_path()),
        Verb::Create if !target.name.is_empty() => Err(ApiError::method_not_allowed()),
        Verb::Update | Verb::Patch if target.name.is_empty() => Err(ApiError::method_not_allowed()),
        Verb::Delete if target.status => Err(ApiError::method_not_allowed()),
        _ => Ok(()),
    }
}

fn operate(inner: &Inner, target: &Target, incoming: &Incoming, query: &Query) -> Result<Outcome, Failure> {
    let method = incoming.request.method();
    let filter = || Filter::new(target, query.text("labelSelector"), query.text("fieldSelector"));
    match target.info.verb {
        Verb::Get if *method == Method::GET => {
            Ok(inner.with(|s| read::get(s, target, query.text("resourceVersion")))?)
        }
        Verb::List if *method == Method::GET => {
            query.check_list_options(false)?;
            let (filter, mut options) = (filter()?, query.list_options()?);
            options.stale = incoming.stale;
            Ok(inner.with(|s| read::list(s, target, &filter, &options))?)
        }
        Verb::Create if target.resource.builtin.is_some_and(Builtin::is_review) => {
            Ok(Outcome::Value(201, reviews::answer(target, &read_body(incoming)?.0)?))
        }
        Verb::Create => {
            let (body, options) = read_write(incoming, query, "CreateOptions")?;
            create::create(inner, target, body, &options)
        }
        Verb::Update => {
            let (body, options) = read_write(incoming, query, "UpdateOptions")?;
            check_name(target, &body)?;
            let made = update::update(inner, target, &options, true, &|_| Ok(body.clone()));
            match made {
                Err(Failure::Api(error)) if error.code == 404 && target.resource.is_created_by_update() => {
                    create::create(inner, target, update::for_creation(target, body)?, &options)
                }
                made => made,
            }
        }
        Verb::Patch => {
            let builtin = target.resource.builtin.is_some();
            let (patch, repeated) =
                PatchBody::read(&content_type(incoming), incoming.request.body(), builtin)?;
            let options = WriteOptions { repeated, patch: true, ..query.write_options("PatchOptions")? };
            update::update(inner, target, &options, false, &|old| patch.apply(old))
        }
        Verb::Delete => delete::delete(inner, target, &delete_options(incoming, query)?),
        Verb::DeleteCollection => {
            let filter = filter()?;
            delete::delete_collection(inner, target, &filter, &delete_options(incoming, query)?)
        }
        _ => Err(ApiError::method_not_allowed().into()),
    }
}

fn check_name(target: &Target, body: &Json) -> Result<(), ApiError> {
    let name = meta::text(body, "name");
    if *name == *target.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        target.name
    )))
}

fn delete_options(incoming: &Incoming, query: &Query) -> Result<DeleteOptions, ApiError> {
    let body = if incoming.request.body().is_empty() { Json::new() } else { read_body(incoming)?.0 };
    DeleteOptions::read(&body, &|name| query.get(name).map(str::to_owned))
}

fn watch(
    inner: &Arc<Inner>,
    target: &Target,
    incoming: &Incoming,
    query: &Query,
    format: Format,
) -> Result<Response<ResponseBody>, Failure> {
    query.check_list_options(true)?;
    let filter = Filter::new(target, query.text("labelSelector"), query.text("fieldSelector"))?;
    let options = WatchOptions {
        resource_version: read::watch_version(query.text("resourceVersion"))?,
        bookmarks: query.flag("allowWatchBookmarks"),
        initial: initial_events(query)?,
        timeout: query
            .number("timeoutSeconds")?
            .map(|n| Duration::from_secs(n.try_into().unwrap_or_default())),
        fault: incoming.watch_fault,
        shape: format.shape,
        include: query.text("includeObject").to_owned(),
    };
    let stream = WatchStream::open(inner, target.clone(), filter, options)?;
    Ok(render::stream(stream))
}

/// Whether a watch begins with what is there and marks the end of that by a bookmark.
fn initial_events(query: &Query) -> Result<bool, ApiError> {
    if !query.flag("sendInitialEvents") {
        return Ok(false);
    }
    if !query.flag("allowWatchBookmarks") {
        let why = "sendInitialEvents is forbidden without allowWatchBookmarks";
        let error = FieldError::forbidden("sendInitialEvents", why);
        return Err(ApiError::invalid_options("ListOptions", &[error]));
    }
    Ok(true)
}

fn content_type(incoming: &Incoming) -> String {
    incoming
        .request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Reads the object in a body, and what is to be said of fields that stand in it twice.
fn read_body(incoming: &Incoming) -> Result<(Json, Vec<String>), ApiError> {
    let body = incoming.request.body();
    let parsed = match content_type(incoming).as_str() {
        "" | "application/json" | "*/*" => input::json(body),
        "application/yaml" | "application/x-yaml" | "text/yaml" => input::yaml(body),
        "application/vnd.kubernetes.protobuf" => {
            super::protobuf::decode(body).map(|object| (Value::Object(object), Vec::new()))
        }
        _ => {
            return Err(ApiError::unsupported_media_type(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    match parsed {
        Ok((Value::Object(object), repeated)) => Ok((object, repeated)),
        Ok((Value::Null, repeated)) => Ok((Json::new(), repeated)),
        Ok(_) => Err(ApiError::bad_request(
            "the object provided is unrecognized (must be of type Object): the body holds no object",
        )),
        Err(why) => Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type Object): couldn't get version/kind; json parse error: \
             {why}"
        ))),
    }
}

/// Reads the object of a write with the options of its request.
fn read_write(incoming: &Incoming, query: &Query, kind: &str) -> Result<(Json, WriteOptions), ApiError> {
    let (body, repeated) = read_body(incoming)?;
    Ok((body, WriteOptions { repeated, ..query.write_options(kind)? }))
}
