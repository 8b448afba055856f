//! Finalizers and annotations: the words by which objects are known on the wire.

/// Held by a Target on itself until its tasks and bindings are gone.
pub const TARGET_FINALIZER: &str = "solar.opendefense.cloud/target-finalizer";
/// Held by a RenderArtifact on itself until its tag is gone.
pub const RENDER_ARTIFACT_FINALIZER: &str = "solar.opendefense.cloud/render-artifact-finalizer";
/// Held by a ComponentVersion on itself.
pub const COMPONENT_VERSION_FINALIZER: &str = "solar.opendefense.cloud/componentversion-finalizer";
/// Held by a Release on itself.
pub const RELEASE_FINALIZER: &str = "solar.opendefense.cloud/release-finalizer";
/// Held by a Profile on itself until its bindings are gone.
pub const PROFILE_FINALIZER: &str = "solar.opendefense.cloud/profile-finalizer";
/// Held by a ReleaseBinding on itself.
pub const RELEASE_BINDING_FINALIZER: &str = "solar.opendefense.cloud/releasebinding-finalizer";
/// Held by a RegistryBinding on itself.
pub const REGISTRY_BINDING_FINALIZER: &str = "solar.opendefense.cloud/registrybinding-finalizer";
/// Protects a Registry while a Target, RegistryBinding or RenderArtifact needs it.
pub const REGISTRY_REF_FINALIZER: &str = "solar.opendefense.cloud/registry-ref";
/// Protects a ComponentVersion while a Release names it.
pub const COMPONENT_VERSION_REF_FINALIZER: &str = "solar.opendefense.cloud/componentversion-ref";
/// Protects a Component while a ComponentVersion names it.
pub const COMPONENT_REF_FINALIZER: &str = "solar.opendefense.cloud/component-ref";
/// Protects a Release while a Profile or ReleaseBinding names it.
pub const RELEASE_REF_FINALIZER: &str = "solar.opendefense.cloud/release-ref";

/// `"true"` on a Target: nothing but deletion is done.
pub const SUSPEND_ANNOTATION: &str = "solar.opendefense.cloud/suspend";
/// A new value on a Target asks for a pass.
pub const RECONCILE_ANNOTATION: &str = "solar.opendefense.cloud/reconcile";
/// A new value on a RenderTask or Target asks for another attempt after a final failure.
pub const RENDER_REQUEST_ANNOTATION: &str = "solar.opendefense.cloud/render-request";
/// A new value on a ComponentVersion asks for a check at once.
pub const AVAILABILITY_RECHECK_ANNOTATION: &str = "solar.opendefense.cloud/availability-recheck";
