//! The list of tags, page by page.

use http::{HeaderMap, Method, header};
use url::Url;

use super::auth::Access;
use super::call::{Call, Message};
use super::error::{OciError, OciErrorKind, Operation};
use super::session::Session;
use super::transport::Transport;
use super::types::Endpoint;

const TAGS_PAGE: usize = 1000;
const MAX_TAG_PAGES: usize = 100;
const TAGS_BODY: usize = 1024 * 1024;

impl<T: Transport> Session<T> {
    pub(crate) async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        let call = self.call_to(Operation::Tags, Access::Pull, (endpoint, repository), TAGS_BODY);
        let mut tags = Vec::new();
        let mut next = Some(call.url(&format!("tags/list?n={TAGS_PAGE}"))?);
        for _ in 0..MAX_TAG_PAGES {
            let Some(url) = next.take() else { break };
            let response = self.call(&call, Message::new(Method::GET, url.clone())).await?;
            match response.status().as_u16() {
                404 => break,
                200..=299 => {}
                _ => return Err(call.refused(&response)),
            }
            let page = tag_page(response.body()).ok_or_else(|| call.protocol("no list of tags"))?;
            next = next_page(&call, &url, response.headers(), &page)?;
            tags.extend(page);
        }
        if next.is_some() {
            return Err(call.fail(OciErrorKind::TooLarge { limit: MAX_TAG_PAGES * TAGS_PAGE }));
        }
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }
}

fn tag_page(body: &[u8]) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Page {
        tags: Option<Vec<String>>,
    }
    serde_json::from_slice::<Page>(body).ok().map(|page| page.tags.unwrap_or_default())
}

/// The next page: where `Link` points, else behind the last tag when the page was full.
fn next_page(
    call: &Call<'_>,
    url: &Url,
    headers: &HeaderMap,
    page: &[String],
) -> Result<Option<Url>, OciError> {
    if let Some(link) = headers.get(header::LINK).and_then(|value| value.to_str().ok()) {
        let target =
            link.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(target, _)| target);
        let target = target.filter(|_| link.contains("next")).and_then(|target| url.join(target).ok());
        return match target {
            Some(target) if target.origin() != url.origin() => {
                Err(call.protocol("a list that goes on at another host"))
            }
            Some(target) if target == *url => Err(call.protocol("a list whose next page is itself")),
            target => Ok(target),
        };
    }
    let Some(last) = page.last().filter(|_| page.len() >= TAGS_PAGE) else {
        return Ok(None);
    };
    let mut next = call.url("tags/list")?;
    next.query_pairs_mut().append_pair("n", &TAGS_PAGE.to_string()).append_pair("last", last);
    if next == *url { Err(call.protocol("a list whose next page is itself")) } else { Ok(Some(next)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_list_of_tags_is_empty() {
        assert_eq!(tag_page(br#"{"name":"a","tags":null}"#), Some(vec![]));
        assert_eq!(tag_page(br#"{"name":"a","tags":["x"]}"#), Some(vec!["x".to_owned()]));
        assert_eq!(tag_page(b"[]"), None);
    }
}
