//! How a Kubernetes API server behaves, case by case, through nothing but HTTP requests.
//!
//! Every case is two tests: `embedded` starts an embedded server of its own; `real` runs on the kube-apiserver of
//! `test-bed`, or on the cluster of the kubeconfig that `BEHAVIOUR_KUBECONFIG` names (its user must be an administrator,
//! and the garbage collector and the namespace controller must run there). What they expect is what a real kube-apiserver
//! answers. Where the embedded one is meant to differ, a case says so through [`case::Case::is_embedded`].
//!
//! Every case has a namespace, and where it needs one a kind, of its own, and removes them, also when it fails.

mod admission;
mod builtin;
mod case;
mod concurrency;
mod definitions;
mod deletion;
mod evolution;
mod input;
mod listing;
mod ownership;
mod patching;
mod selecting;
mod status;
mod watching;
