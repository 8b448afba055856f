//! Statuses that somebody else writes.

use serde_json::{Value, json};

/// A kind, and what somebody writes into the status of one of its objects.
pub fn edits() -> Vec<(&'static str, Value)> {
    let now = "2026-01-01T00:00:00Z";
    let odd = |type_: &str, status: &str, reason: &str| {
        json!([{
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "Grüße",
            "lastTransitionTime": now,
            "observedGeneration": 4_000_000,
        }])
    };
    vec![
        ("Target", json!({ "bootstrapVersion": -7 })),
        ("Target", json!({ "bootstrapVersion": 0, "chartURL": null, "conditions": null })),
        ("Target", json!({ "bootstrapVersion": 41 })),
        ("Target", json!({ "bootstrapVersion": i64::MAX })),
        ("Target", json!({ "chartURL": "not an address", "observedGeneration": -1 })),
        ("Target", json!({ "conditions": odd("Ready", "False", "Nonsense") })),
        ("Target", json!({ "conditions": odd("BootstrapReady", "Unknown", "Nonsense") })),
        ("Release", json!({ "effectiveUniqueName": "other" })),
        ("Release", json!({ "conditions": odd("ComponentVersionResolved", "False", "Nonsense") })),
        ("ReleaseBinding", json!({ "conditions": odd("TargetResolved", "False", "Nonsense") })),
        ("RenderTask", json!({ "digest": "nonsense" })),
        ("RenderTask", json!({ "digest": format!("sha256:{}", "a".repeat(64)) })),
        ("RenderTask", json!({ "digest": "", "chartURL": "not an address" })),
        ("RenderTask", json!({ "attempts": -3, "observedRenderRequest": "x" })),
        ("RenderTask", json!({ "conditions": odd("JobFailed", "True", "Nonsense") })),
        ("RenderTask", json!({ "conditions": null, "digest": null, "chartURL": null })),
        ("RenderArtifact", json!({ "digest": "nonsense" })),
        ("RenderArtifact", json!({ "digest": format!("sha256:{}", "a".repeat(64)) })),
        ("RenderArtifact", json!({ "digest": "", "chartURL": "" })),
        ("RenderArtifact", json!({ "digest": null, "chartURL": null, "conditions": null })),
        ("RenderArtifact", json!({ "conditions": odd("OCICleanup", "False", "DeleteFailed") })),
        ("RegistryBinding", json!({ "conditions": odd("RegistryResolved", "False", "Nonsense") })),
        ("RegistryBinding", json!({ "conditions": null })),
        ("Profile", json!({ "matchedTargets": -1, "conditions": null })),
        ("Profile", json!({ "conditions": odd("Ready", "False", "Nonsense") })),
    ]
}

/// What matters of a status: not when it changed, in which order, nor which version a bootstrap chart has.
pub fn of_ours(object: &Value) -> Value {
    let mut status = object["status"].clone();
    let mut none = Vec::new();
    let conditions = status["conditions"].as_array_mut().unwrap_or(&mut none);
    conditions.sort_by_key(|condition| condition["type"].to_string());
    for condition in conditions {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
        if condition["type"] == "BootstrapReady" {
            // It names the version.
            condition.as_object_mut().unwrap().remove("message");
        }
    }
    if let Some(status) = status.as_object_mut() {
        // What counts attempts and answers of a task that has its chart is not looked at any more.
        let loose: &[&str] = match object["kind"].as_str() {
            Some("Target") => &["bootstrapVersion", "chartURL"],
            Some("RenderTask") => &["attempts", "observedRenderRequest"],
            _ => &[],
        };
        for field in loose {
            status.remove(*field);
        }
    }
    status
}
