//! Flags and configurations that are refused, each with the reason and the mend.

use std::net::TcpListener;

use crate::program::program;

fn refused(arguments: &[&str], code: i32) -> String {
    let ran = program().arg("run").args(arguments).env("HOME", "/nonexistent").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

#[test]
fn a_wrong_value_is_refused_naming_the_flag_and_the_mend() {
    for (arguments, says) in [
        (&["--render-timeout", "0s"][..], "'--render-timeout <DURATION>': it must be more than zero"),
        (&["--render-requeue-delay", "0s"], "'--render-requeue-delay <DURATION>': it must be more than zero"),
        (&["--takeover-wait", "soon"], "\"soon\" is not a duration: write it like 90s, 5m or 1h30m"),
        (&["--shutdown-grace=-1s"], "\"-1s\" is less than zero"),
        (&["--controllers", "Target"], "Target, RenderTask and RenderArtifact run only together"),
        (&["--controllers", "Pod"], "invalid value 'Pod' for '--controllers <KIND>'"),
        (
            &["--controllers", "Pod"],
            "possible values: Target, RenderTask, RenderArtifact, ComponentVersion, Release",
        ),
        (&["--watch-namespace", "Fleet"], "\"Fleet\" is not a namespace: lower case letters"),
        (&["--watch-namespace", ""], "\"\" is not a namespace"),
        (
            &["--health-bind-address", "8081"],
            "write it like 127.0.0.1:8080, localhost:8080, [::1]:8080 or :8080",
        ),
        (&["--metrics-bind-address", ":http"], "the port must be a number from 0 to 65535"),
        (&["--health-bind-address", ":8080"], "are both :8080: give each its own port, or off"),
        (&["--log-format", "xml"], "possible values: text, json"),
        (
            &["--lease-renew-deadline", "15s"],
            "--lease-renew-deadline 15s must be shorter than --lease-duration 15s",
        ),
        (&["--lease-retry-period", "6s"], "at most half of --lease-renew-deadline"),
        (&["--lease-duration", "2500ms"], "a Lease counts whole seconds"),
        (&["--leader-election-name", "Me"], "lower-case letters"),
        (&["--leader-elect=perhaps"], "--leader-elect"),
        (&["--exit-when-ready"], "unexpected argument '--exit-when-ready'"),
    ] {
        let said = refused(arguments, 2);
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn a_variable_is_checked_like_its_flag() {
    let ran = program().arg("run").env("SOLAR_RENDER_TIMEOUT", "0s").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("--render-timeout"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_said_with_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [
        ("--health-bind-address", "--metrics-bind-address"),
        ("--metrics-bind-address", "--health-bind-address"),
    ] {
        let said = refused(&[flag, &address, other, "off"], 1);
        assert!(said.contains(&format!("cannot listen on {address} ({flag})")), "{said}");
        assert!(said.contains(&format!("choose another one with {flag}")), "{said}");
    }
    // Also where every address of the machine is asked for.
    let said = refused(&["--health-bind-address", &format!(":{}", taken.local_addr().unwrap().port())], 1);
    assert!(said.contains("(--health-bind-address)"), "{said}");
}

#[test]
fn a_cluster_that_is_not_configured_is_said_with_the_mend() {
    let off = ["--health-bind-address", "off", "--metrics-bind-address", "off"];
    let said = refused(&off, 1);
    assert!(said.contains("~/.kube/config") && said.contains("--kubeconfig"), "{said}");
    let said = refused(&[&off[..], &["--kubeconfig", "/nonexistent/kubeconfig"]].concat(), 1);
    let wanted = "the kubeconfig cannot be used (--kubeconfig /nonexistent/kubeconfig): failed to read kubeconfig from \
                  \"/nonexistent/kubeconfig\": No such file";
    assert!(said.contains(wanted), "{said}");
    let ran = program().arg("run").args(off).env("KUBERNETES_SERVICE_HOST", "10.0.0.1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1));
    assert!(said.contains("the service account of this pod cannot be used"), "{said}");
}
