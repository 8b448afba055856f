//! Condition types and reasons, one module for each type.

/// `RegistryResolved` of a Target or RegistryBinding.
pub mod registry_resolved {
    /// The condition's type.
    pub const TYPE: &str = "RegistryResolved";
    /// The Registry exists and has push credentials.
    pub const RESOLVED: &str = "Resolved";
    /// The Registry does not exist.
    pub const NOT_FOUND: &str = "NotFound";
    /// The Registry is in another namespace, and no grant there allows it.
    pub const NOT_GRANTED: &str = "NotGranted";
    /// The Registry's namespace is not watched.
    pub const NOT_WATCHED: &str = "NotWatched";
    /// The Registry's hostname is no host.
    pub const INVALID_HOSTNAME: &str = "InvalidHostname";
    /// The Registry names no push secret.
    pub const MISSING_SOLAR_SECRET_REF: &str = "MissingSolarSecretRef";
}

/// `ReleasesResolved` of a Target.
pub mod releases_resolved {
    /// The condition's type.
    pub const TYPE: &str = "ReleasesResolved";
    /// Every bound release was accepted.
    pub const NO_CONFLICTS: &str = "NoConflicts";
    /// Some bindings were filtered.
    pub const RESOLVED: &str = "Resolved";
    /// Nothing is bound.
    pub const NO_RELEASE_BINDINGS: &str = "NoReleaseBindings";
}

/// `ReleasesRendered` of a Target.
pub mod releases_rendered {
    /// The condition's type.
    pub const TYPE: &str = "ReleasesRendered";
    /// Every accepted release has its chart.
    pub const ALL_RENDERED: &str = "AllRendered";
    /// Nothing is bound.
    pub const NO_RELEASE_BINDINGS: &str = "NoReleaseBindings";
    /// The resolver filtered every binding.
    pub const ALL_RELEASE_BINDINGS_FILTERED: &str = "AllReleaseBindingsFiltered";
    /// Two RegistryBindings give one host different pull secrets.
    pub const REGISTRY_BINDING_CONFLICT: &str = "RegistryBindingConflict";
    /// A Release, ComponentVersion or Registry is missing or not granted.
    pub const MISSING_DEPENDENCIES: &str = "MissingDependencies";
    /// Strict mode: a host has no RegistryBinding.
    pub const MISSING_REGISTRY_BINDING: &str = "MissingRegistryBinding";
    /// Another artifact has the name that is needed.
    pub const NAME_COLLISION: &str = "NameCollision";
    /// A release's RenderTask failed.
    pub const RELEASE_FAILED: &str = "ReleaseFailed";
    /// Charts are on their way.
    pub const PENDING: &str = "Pending";
}

/// `BootstrapReady` of a Target.
pub mod bootstrap_ready {
    /// The condition's type.
    pub const TYPE: &str = "BootstrapReady";
    /// The bootstrap chart can be pulled.
    pub const READY: &str = "Ready";
    /// The bootstrap's RenderTask failed.
    pub const FAILED: &str = "Failed";
    /// The bootstrap chart is being made.
    pub const RENDERING: &str = "Rendering";
    /// Earlier stages are not done.
    pub const WAITING: &str = "Waiting";
}

/// `Ready` of a Target.
pub mod ready {
    /// The condition's type.
    pub const TYPE: &str = "Ready";
    /// All other conditions are True.
    pub const READY: &str = "Ready";
    /// The Target is suspended.
    pub const SUSPENDED: &str = "Suspended";
}

/// `Ready` of a Profile.
pub mod profile_ready {
    /// The condition's type.
    pub const TYPE: &str = "Ready";
    /// Every Target that the selector selects is bound, or is about to be.
    pub const BOUND: &str = "Bound";
    /// `spec.targetSelector` cannot be asked.
    pub const INVALID_SELECTOR: &str = "InvalidSelector";
    /// The Release does not exist.
    pub const RELEASE_NOT_FOUND: &str = "ReleaseNotFound";
    /// Another object has the name of a binding.
    pub const NAME_COLLISION: &str = "NameCollision";
    /// The API server refuses a binding.
    pub const BINDING_REFUSED: &str = "BindingRefused";
}

/// `TargetResolved` of a ReleaseBinding or RegistryBinding.
pub mod target_resolved {
    /// The condition's type.
    pub const TYPE: &str = "TargetResolved";
    /// The Target exists and may be referred to.
    pub const RESOLVED: &str = "Resolved";
    /// The Target does not exist.
    pub const NOT_FOUND: &str = "NotFound";
    /// The Target is in another namespace, and no grant there allows the binding.
    pub const NOT_GRANTED: &str = "NotGranted";
    /// The Target's namespace is not watched.
    pub const NOT_WATCHED: &str = "NotWatched";
}

/// `ReleaseResolved` of a ReleaseBinding.
pub mod release_resolved {
    /// The condition's type.
    pub const TYPE: &str = "ReleaseResolved";
    /// The Release exists.
    pub const RESOLVED: &str = "Resolved";
    /// The Release does not exist.
    pub const NOT_FOUND: &str = "NotFound";
}

/// Conditions of a RenderTask.
pub mod render_task {
    /// The chart waits for its turn.
    pub const JOB_SCHEDULED: &str = "JobScheduled";
    /// The chart was pushed, or was there.
    pub const JOB_SUCCEEDED: &str = "JobSucceeded";
    /// The last attempt failed.
    pub const JOB_FAILED: &str = "JobFailed";
    /// Reason of JobFailed False: another attempt began.
    pub const RETRYING: &str = "Retrying";
}

/// `OCICleanup` of a RenderArtifact.
pub mod oci_cleanup {
    /// The condition's type.
    pub const TYPE: &str = "OCICleanup";
    /// Registry, grant or Secret could not be resolved.
    pub const AUTH_FAILED: &str = "AuthFailed";
    /// The registry did not delete the tag.
    pub const DELETE_FAILED: &str = "DeleteFailed";
}

/// `ComponentVersionResolved` of a Release.
pub mod component_version_resolved {
    /// The condition's type.
    pub const TYPE: &str = "ComponentVersionResolved";
    /// The ComponentVersion exists.
    pub const RESOLVED: &str = "Resolved";
    /// The ComponentVersion does not exist.
    pub const NOT_FOUND: &str = "NotFound";
    /// The ComponentVersion is in another namespace, and no grant there allows it.
    pub const NOT_GRANTED: &str = "NotGranted";
    /// The ComponentVersion's namespace is not watched.
    pub const NOT_WATCHED: &str = "NotWatched";
}

/// `Available` of a ComponentVersion.
pub mod available {
    /// The condition's type.
    pub const TYPE: &str = "Available";
    /// The descriptor's manifest is in the registry.
    pub const DESCRIPTOR_AVAILABLE: &str = "DescriptorAvailable";
    /// The registry answers 404, and the grace period runs.
    pub const DESCRIPTOR_MISSING_PENDING: &str = "DescriptorMissingPending";
    /// The registry has answered 404 for the whole grace period.
    pub const DESCRIPTOR_MISSING: &str = "DescriptorMissing";
    /// The check had another result than present or absent.
    pub const REGISTRY_UNREACHABLE: &str = "RegistryUnreachable";
    /// The version names no digest.
    pub const NO_DIGEST: &str = "NoDigest";
    /// No Registry in the namespace has the descriptor's host.
    pub const REGISTRY_NOT_CONFIGURED: &str = "RegistryNotConfigured";
}
