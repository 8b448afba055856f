//! Faults on purpose: what goes wrong, for which requests, how often.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    random::{FaultRates, RandomFaults},
    request::{RequestInfo, Verb},
    status::ApiError,
};

/// What happens to one request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing: the request is served.
    #[default]
    None,
    /// An error is answered and nothing else is done.
    Status {
        /// HTTP code.
        code: u16,
        /// `reason` of the `Status` body.
        reason: String,
        /// `message` of the `Status` body.
        message: String,
        /// `Retry-After` in seconds.
        retry_after: Option<u32>,
    },
    /// The request is carried out, but its client sees the connection break instead of the answer.
    LoseAnswer,
    /// The request is carried out, but its client is told 504 with the reason `Timeout`.
    TimeOutAfter,
    /// The connection breaks before anything is done.
    Refuse,
    /// No answer ever comes, and nothing is done.
    Hang,
    /// The request is taken in and waits until [`Server::release_held`](crate::Server::release_held) carries it out,
    /// whether its client still listens or not.
    Hold,
    /// The request is carried out after this time.
    Delay(Duration),
    /// A list may show the past: what was so many revisions ago, but nothing older than the `resourceVersion` that the
    /// request asks for. Only lists that a real server may answer from its cache are touched: those with a
    /// `resourceVersion` (`0` is any) that is not to be met exactly, and no continue token.
    StaleList(u64),
    /// The watch is served, with the faults named; other requests are served as they are.
    Watch(WatchFault),
}

impl Fault {
    /// An error with a code, a reason and a message.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        Self::Status { code, reason: reason.to_owned(), message: message.to_owned(), retry_after: None }
    }

    /// 409: somebody else was faster.
    pub fn conflict() -> Self {
        Self::status(
            409,
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 410: the resource version or continue token is too old.
    pub fn gone() -> Self {
        Self::status(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// 429 with `Retry-After`.
    pub fn too_many_requests(retry_after: u32) -> Self {
        Self::Status {
            code: 429,
            reason: "TooManyRequests".to_owned(),
            message: "the server has received too many requests and has asked us to try again later"
                .to_owned(),
            retry_after: Some(retry_after),
        }
    }

    /// 500.
    pub fn internal() -> Self {
        Self::status(500, "InternalError", "Internal error occurred: injected fault")
    }

    /// 503.
    pub fn unavailable() -> Self {
        Self::status(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    }

    /// 504: the server gave up, and nothing was done.
    pub fn timed_out() -> Self {
        let message =
            "Timeout: request did not complete within requested timeout - context deadline exceeded";
        Self::status(504, "Timeout", message)
    }

    /// Ends a watch after so many events.
    pub fn cut_watch_after(events: usize) -> Self {
        Self::Watch(WatchFault { cut_after: Some(events), ..WatchFault::default() })
    }

    /// The error that this fault answers, if it answers one.
    pub(crate) fn as_error(&self) -> Option<ApiError> {
        let Self::Status { code, reason, message, retry_after } = self else {
            return None;
        };
        let error = ApiError::new(*code, reason, message.clone());
        Some(match retry_after {
            Some(seconds) => error.retry_after(*seconds),
            None => error,
        })
    }
}

/// What goes wrong with one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchFault {
    /// The connection breaks after so many events (bookmarks do not count).
    pub cut_after: Option<usize>,
    /// Instead of a break, the stream ends with an error event 410.
    pub gone: bool,
    /// Every batch of events is this late.
    pub delay: Option<Duration>,
    /// No bookmark is sent, except the one that ends the initial events.
    pub withhold_bookmarks: bool,
    /// A watch that resumes from a resource version begins so many changes before it, so that its client sees events
    /// again, in their order. (What can't happen on a real server is that events change places.)
    pub repeat: usize,
}

type Decide = Arc<dyn Fn(&RequestInfo) -> Fault + Send + Sync>;

/// One rule of a [`FaultPlan`]: which requests, from the how-manieth on, how often, and what happens to them.
///
/// A rule without conditions concerns every request.
#[derive(Clone)]
pub struct FaultRule {
    verb: Option<Verb>,
    group: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    actor: Option<String>,
    skip: u64,
    times: u64,
    fault: Fault,
}

impl fmt::Debug for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultRule")
            .field("verb", &self.verb)
            .field("resource", &self.resource)
            .field("name", &self.name)
            .field("skip", &self.skip)
            .field("times", &self.times)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl FaultRule {
    /// A rule that does this to every request; narrow it with the other methods.
    pub fn new(fault: Fault) -> Self {
        Self {
            verb: None,
            group: None,
            resource: None,
            subresource: None,
            namespace: None,
            name: None,
            actor: None,
            skip: 0,
            times: u64::MAX,
            fault,
        }
    }

    /// Only requests of this verb.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests to this API group (empty: core).
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// Only requests to this resource, by plural name or by kind.
    pub fn resource(mut self, plural_or_kind: &str) -> Self {
        self.resource = Some(plural_or_kind.to_owned());
        self
    }

    /// Only requests to this subresource (empty: to none).
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only requests in this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only requests for this object: also its create, when it is sent as JSON, and lists and watches whose field selector
    /// asks for this `metadata.name`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only requests of this actor.
    pub fn actor(mut self, actor: &str) -> Self {
        self.actor = Some(actor.to_owned());
        self
    }

    /// Lets the first `count` matching requests pass.
    pub fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Strikes at most `count` times.
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    fn matches(&self, info: &RequestInfo) -> bool {
        fn is(want: Option<&String>, found: &str) -> bool {
            want.is_none_or(|w| w == found)
        }
        self.verb.is_none_or(|v| v == info.verb)
            && is(self.group.as_ref(), &info.group)
            && self.resource.as_ref().is_none_or(|r| **r == *info.resource || **r == *info.kind)
            && is(self.subresource.as_ref(), &info.subresource)
            && is(self.namespace.as_ref(), &info.namespace)
            && is(self.name.as_ref(), &info.name)
            && is(self.actor.as_ref(), &info.actor)
    }

    fn strike(&mut self, info: &RequestInfo) -> Fault {
        if self.times == 0 || !self.matches(info) {
            return Fault::None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Fault::None;
        }
        self.times -= 1;
        self.fault.clone()
    }
}

#[derive(Clone)]
enum Step {
    Rule(Box<FaultRule>),
    Decide(Decide),
    Random(Box<RandomFaults>),
}

/// Decides for each request what goes wrong with it: the first rule or closure that names a fault wins.
///
/// ```
/// use kube_embedded::{Fault, FaultPlan, FaultRule, Verb};
/// let plan = FaultPlan::new()
///     .rule(FaultRule::new(Fault::conflict()).verb(Verb::Patch).resource("secrets").after(1).times(2))
///     .decide(|request| if &*request.actor == "old" { Fault::Hang } else { Fault::None });
/// # let _ = plan;
/// ```
#[derive(Clone, Default)]
pub struct FaultPlan {
    steps: Vec<Step>,
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultPlan").field("steps", &self.steps.len()).finish()
    }
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule behind those that stand.
    pub fn rule(mut self, rule: FaultRule) -> Self {
        self.push(rule);
        self
    }

    /// Adds a closure behind the rules that stand. It is called once per request that no earlier step struck, in order
    /// of arrival.
    pub fn decide(mut self, decide: impl Fn(&RequestInfo) -> Fault + Send + Sync + 'static) -> Self {
        self.steps.push(Step::Decide(Arc::new(decide)));
        self
    }

    /// A plan that draws a fault, or none, for each request, in order of arrival: equal seeds, rates and requests give
    /// equal faults. Rules and closures may stand behind it.
    ///
    /// ```
    /// use kube_embedded::{FaultPlan, FaultRates, Server};
    /// let rates = FaultRates { conflict: 50, watch_cut: 200, ..FaultRates::default() };
    /// let server = Server::builder().faults(FaultPlan::random(7, rates)).build();
    /// # let _ = server;
    /// ```
    pub fn random(seed: u64, rates: FaultRates) -> Self {
        Self { steps: vec![Step::Random(Box::new(RandomFaults::new(seed, rates)))] }
    }

    pub(crate) fn push(&mut self, rule: FaultRule) {
        self.steps.push(Step::Rule(Box::new(rule)));
    }

    /// What happens to the next request: for a closure ([`Self::decide`]) that has a plan of its own within it.
    pub fn strike(&mut self, info: &RequestInfo) -> Fault {
        for step in &mut self.steps {
            let fault = match step {
                Step::Rule(rule) => rule.strike(info),
                Step::Decide(decide) => decide(info),
                Step::Random(random) => random.strike(info),
            };
            if fault != Fault::None {
                return fault;
            }
        }
        Fault::None
    }
}
