//! `solar-controller`: a Kubernetes controller that turns "these releases are bound to this cluster" into Helm charts in
//! an OCI registry. It is a city of mailboxes: what must be decided is decided in `solar-core`, by plain functions; what
//! must be done is done by actors; nothing else holds state.
//!
//! # The actors
//!
//! | actor | how many | inbox ([`messages`]) | it sends to |
//! | --- | --- | --- | --- |
//! | [`Root`](actors::root::Root) | 1 | `root`: Begin, KindSynced, Retire, CriticalPartDied, GetState, ShutDown | watches, gate, pool |
//! | [`Watch`](actors::watch::Watch) | 1 for each kind | `watch`: StartWatching, StopWatching | the cache; wakes to object actors; KindSynced to the root |
//! | [`Gate`](actors::gate::Gate) | 1 | `gate`: Enter, SlotReturned, Open, Close | GateOpened to object actors |
//! | [`ObjectActor`](actors::object::ObjectActor) of [`TargetKind`](actors::target::TargetKind) | 1 for each Target | `object`: Woken, Answered, GateOpened | Bind and Unbind to artifacts |
//! | … of [`RenderTaskKind`](actors::render_task::RenderTaskKind) | 1 for each RenderTask | `object` | Submit and Withdraw to the pool |
//! | … of [`RenderArtifactKind`](actors::render_artifact::RenderArtifactKind) | 1 for each RenderArtifact name | `object`, `render_artifact`: Bind, Unbind, OpenPush, Pushed, PushFailed | answers to Targets and jobs |
//! | … of [`ReleaseKind`](actors::release::ReleaseKind), [`ReleaseBindingKind`](actors::release_binding::ReleaseBindingKind) | 1 for each object | `object` | - |
//! | … of [`ProtectionKind`](actors::protection::ProtectionKind) | 1 for each Registry, Release, ComponentVersion and Component | `object` | - |
//! | … of [`ComponentVersionKind`](actors::component_version::ComponentVersionKind) | 1 for each ComponentVersion | `object` | CheckManifest to the registry actor |
//! | [`RegistryActor`](actors::registry_actor::RegistryActor) | 1 | `registry_actor`: CheckManifest, StopChecking | admissions and results to ComponentVersions, from its [checks](actors::availability_check) |
//! | [`RenderPool`](actors::render_pool::RenderPool) | 1 | `render_pool`: Submit, Withdraw, StopRendering | answers to tasks; OpenPush, Pushed and PushFailed to artifacts, from its [jobs](actors::render_job) |
//!
//! Timers ([`actors::timers`]) and events ([`adapters::kubernetes::deliver`]) are one task each. Every task is started
//! by [`Spawner::spawn_pass`](actors::pass::Spawner::spawn_pass), and ends with whoever started it.

pub mod actors;
pub mod adapters;
pub mod cli;
#[cfg(feature = "dev")]
pub mod dev;
pub mod election;
pub mod flags;
pub mod messages;
pub mod reference;
pub mod render_command;
pub mod run_command;
pub mod runtime;
pub mod signals;
pub mod telemetry;
