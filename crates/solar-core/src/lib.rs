//! What solar-controller decides, as plain synchronous functions.
//!
//! Nothing here reads a clock, a socket or a file, and nothing waits: what was observed comes in as values, and what is
//! to be done goes out as values. The shell that observes and acts is the controller package.
//!
//! | module | answers |
//! | --- | --- |
//! | [`object`], [`record`], [`world`], [`overlay`] | what is known: slim records of objects, with indexes by reference |
//! | [`packed`], [`interner`] | how records are kept in little memory |
//! | [`hash`], [`fit`], [`host`], [`names`], [`oci_name`], [`layout`], [`content`] | what things are called, and when two are the same |
//! | [`grant`], [`pull_secret`], [`selector`], [`resolver`] | which releases reach a Target, and with which pull secrets |
//! | [`condition`], [`status_edits`] | how a condition changes, and when a status that somebody else wrote is put right |
//! | [`credential`] | which credentials a Secret holds for a host |
//! | [`backoff`], [`retry_after`], [`schedule`] | how long to wait after a failure, and when something is looked at again and again |
//! | [`target`] | what a Target needs next |
//! | [`artifact`] | what a RenderArtifact's actor answers and does |
//! | [`render_task`], [`admission`] | when a chart is rendered, and who gets a render slot |
//! | [`release`], [`binding`], [`protection`] | what a Release or a binding resolves, and when a protected object is let go |
//! | [`profile`] | which ReleaseBindings Profiles want |
//! | [`availability`] | whether a ComponentVersion's descriptor is there, when it is looked at, and whose turn it is |
//! | [`routes`] | which actors a change concerns |
//! | [`lease`] | which of several processes may lead |

pub mod admission;
pub mod artifact;
pub mod availability;
pub mod backoff;
pub mod binding;
pub mod condition;
pub mod content;
pub mod credential;
pub mod fit;
pub mod grant;
pub mod hash;
pub mod host;
pub mod interner;
pub mod layout;
pub mod lease;
pub mod names;
pub mod object;
pub mod oci_name;
pub mod overlay;
pub mod packed;
pub mod profile;
pub mod protection;
pub mod pull_secret;
pub mod queue;
pub mod record;
pub mod release;
pub mod render_task;
pub mod resolver;
pub mod retry_after;
pub mod routes;
pub mod schedule;
pub mod selector;
pub mod status_edits;
pub mod target;
pub mod world;
