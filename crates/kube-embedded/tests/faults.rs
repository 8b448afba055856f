//! Faults, fences and the request log.

mod common;

use std::{sync::Arc, time::Duration};

use common::{object, refusal, server, widget, widget_server, widgets};
use futures::{FutureExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams, WatchParams},
};
use kube_embedded::{Clock, Fault, FaultPlan, FaultRates, FaultRule, Server, TokioClock, Verb, WatchFault};
use serde_json::json;

fn params() -> PostParams {
    PostParams::default()
}

fn map(name: &str) -> ConfigMap {
    object(json!({ "metadata": { "name": name } }))
}

#[tokio::test(start_paused = true)]
async fn errors_are_answered_as_planned_and_nothing_is_done() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let table = [
        (Fault::conflict(), 409, "Conflict"),
        (Fault::gone(), 410, "Expired"),
        (Fault::too_many_requests(3), 429, "TooManyRequests"),
        (Fault::internal(), 500, "InternalError"),
        (Fault::unavailable(), 503, "ServiceUnavailable"),
        (Fault::timed_out(), 504, "Timeout"),
    ];
    for (fault, code, reason) in table {
        server.set_faults(FaultPlan::new().rule(FaultRule::new(fault).verb(Verb::Create).times(1)));
        let refused = refusal(api.create(&params(), &map("a")).await);
        assert_eq!((refused.code, refused.reason.as_str()), (code, reason));
        assert_eq!(server.count("ConfigMap"), 0);
    }
    api.create(&params(), &map("a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rules_count_and_choose() {
    let server = widget_server();
    let client = server.client_for("second", "default");
    let rule = FaultRule::new(Fault::conflict())
        .verb(Verb::Get)
        .resource("Widget")
        .group("example.com")
        .namespace("default")
        .name("a")
        .actor("second")
        .after(1)
        .times(2);
    server.add_fault(rule);
    let first = widgets(&server.client_for("first", "default"), "default");
    let second = widgets(&client, "default");
    first.create(&params(), &widget("a")).await.unwrap();
    first.create(&params(), &widget("b")).await.unwrap();
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(second.get("a").await.is_ok());
        assert!(second.get("b").await.is_ok());
        assert!(first.get("a").await.is_ok());
    }
    assert_eq!(codes, [true, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_behind() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    server.add_fault(FaultRule::new(Fault::LoseAnswer).verb(Verb::Create).times(1));
    let error = api.create(&params(), &map("a")).await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error:?}");
    assert_eq!(refusal(api.create(&params(), &map("a")).await).reason, "AlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn hung_and_slow_requests_run_on_the_paused_clock() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let plan = FaultPlan::new()
        .rule(FaultRule::new(Fault::Hang).verb(Verb::Create).times(1))
        .rule(FaultRule::new(Fault::Delay(Duration::from_secs(20))).verb(Verb::Create).times(1));
    server.set_faults(plan);
    let hour = Duration::from_hours(1);
    assert!(tokio::time::timeout(hour, api.create(&params(), &map("a"))).await.is_err());
    assert_eq!(server.count("ConfigMap"), 0);
    let started = tokio::time::Instant::now();
    api.create(&params(), &map("a")).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_held_request_lands_when_it_is_released() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    server.add_fault(FaultRule::new(Fault::Hold).verb(Verb::Create).times(2));
    let abandoned = tokio::time::timeout(Duration::from_secs(1), api.create(&params(), &map("a"))).await;
    assert!(abandoned.is_err());
    assert_eq!((server.count("ConfigMap"), server.held()), (0, 1));
    assert!(server.release_held());
    assert_eq!(server.count("ConfigMap"), 1, "its client is gone, the write is not");

    let create_params = params();
    let second = map("b");
    let mut waiting = Box::pin(api.create(&create_params, &second));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
    assert!(server.release_held());
    assert!(!server.release_held());
    assert_eq!(waiting.await.unwrap().metadata.name.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn closures_decide_by_what_is_asked() {
    let server = Server::builder()
        .faults(FaultPlan::new().decide(|request| {
            if request.verb.is_write() && &*request.resource == "configmaps" {
                Fault::unavailable()
            } else {
                Fault::None
            }
        }))
        .build();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    assert_eq!(refusal(api.create(&params(), &map("a")).await).code, 503);
    assert!(api.list(&ListParams::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn watches_are_cut_as_planned() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    for name in ["a", "b", "c"] {
        api.create(&params(), &widget(name)).await.unwrap();
    }
    server.add_fault(FaultRule::new(Fault::cut_watch_after(2)).verb(Verb::Watch).times(1));
    let expire = WatchFault { cut_after: Some(1), gone: true, ..WatchFault::default() };
    server.add_fault(FaultRule::new(Fault::Watch(expire)).verb(Verb::Watch).times(1));
    let count = async || {
        let stream = api.watch(&WatchParams::default(), "0").await.unwrap();
        stream.map_ok(|e| format!("{e:?}")).try_collect::<Vec<_>>().await.unwrap()
    };
    assert_eq!(count().await.len(), 2);
    let expired = count().await;
    assert_eq!(expired.len(), 2);
    assert!(expired[1].contains("410"), "{}", expired[1]);
    let open = api.watch(&WatchParams::default().timeout(5), "0").await.unwrap();
    assert_eq!(open.take(3).count().await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_actor_reaches_nothing_any_more() {
    let server = widget_server();
    let old = widgets(&server.client_for("old", "default"), "default");
    let new = widgets(&server.client_for("new", "default"), "default");
    let mut watch = Box::pin(old.watch(&WatchParams::default(), "0").await.unwrap());
    server.add_fault(FaultRule::new(Fault::Hold).verb(Verb::Create).actor("old"));
    let create_params = params();
    let late = widget("late");
    let mut late = Box::pin(old.create(&create_params, &late));
    assert!((&mut late).now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!((&mut late).now_or_never().is_none());
    server.fence("old");
    assert!(server.release_held());
    assert!(late.await.is_err());
    assert!(old.get("a").await.is_err());
    assert!(watch.try_next().await.unwrap().is_none(), "its watches break");
    assert_eq!(server.count("Widget"), 0);
    new.create(&params(), &widget("a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_who_asked_for_what_and_what_came_of_it() {
    let server = widget_server();
    let api = widgets(&server.client_for("me", "default"), "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let patch = Patch::Merge(json!({ "status": { "note": "x" } }));
    api.patch_status("a", &PatchParams::default(), &patch).await.unwrap();
    let _ = api.get("b").await;
    let lines: Vec<String> = server
        .requests()
        .iter()
        .map(|r| {
            format!(
                "{} {} {}/{}/{} {}/{} {}",
                r.actor, r.verb, r.group, r.resource, r.subresource, r.namespace, r.name, r.code
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "me create example.com/widgets/ default/a 201",
            "me patch example.com/widgets/status default/a 200",
            "me get example.com/widgets/ default/b 404",
        ]
    );
    assert_eq!(server.count_requests(Verb::Patch, "widgets"), 1);
    assert_eq!(server.request_count(), 3);
    server.reset_requests();
    assert_eq!((server.request_count(), server.requests().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_and_requests_give_equal_contents() {
    let run = async || {
        let clock = TokioClock::starting_at("2030-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(clock.now().to_string(), "2030-01-01T00:00:00Z");
        let server = Server::builder().seed(42).clock(Arc::new(clock)).build();
        server.apply_crd(common::widget_crd()).unwrap();
        let api = widgets(&server.client("default"), "default");
        for name in ["b", "a"] {
            api.create(&params(), &widget(name)).await.unwrap();
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        serde_json::to_string(&server.snapshot()).unwrap()
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn a_write_may_be_done_though_it_timed_out() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    server.add_fault(FaultRule::new(Fault::TimeOutAfter).verb(Verb::Create).times(1));
    let refused = refusal(api.create(&params(), &map("a")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (504, "Timeout"));
    assert_eq!(server.count("ConfigMap"), 1);
    assert_eq!(server.requests()[0].code, 504);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_stale_only_where_the_protocol_allows_it() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    for name in ["a", "b", "c"] {
        api.create(&params(), &map(name)).await.unwrap();
    }
    let newest = server.resource_version();
    server.add_fault(FaultRule::new(Fault::StaleList(2)).verb(Verb::List));
    let count = async |params: ListParams| {
        let list = api.list(&params).await.unwrap();
        (list.items.len(), list.metadata.resource_version.unwrap().parse::<u64>().unwrap())
    };
    assert_eq!(count(ListParams::default()).await, (3, newest), "the newest was asked for");
    assert_eq!(count(ListParams::default().at("0")).await, (1, newest - 2));
    let second = (newest - 1).to_string();
    assert_eq!(count(ListParams::default().at(&second)).await, (2, newest - 1), "never older than asked");
    let exact = ListParams::default().at(&newest.to_string()).matching(kube::api::VersionMatch::Exact);
    assert_eq!(count(exact).await, (3, newest));
}

#[tokio::test(start_paused = true)]
async fn a_watch_repeats_events_where_it_resumes() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    for name in ["a", "b", "c", "d"] {
        api.create(&params(), &map(name)).await.unwrap();
    }
    let third = (server.resource_version() - 1).to_string();
    let names = async || {
        let stream = api.watch(&WatchParams::default().timeout(1), &third).await.unwrap();
        let events: Vec<_> = stream.try_collect().await.unwrap();
        let name = |e: kube::api::WatchEvent<ConfigMap>| match e {
            kube::api::WatchEvent::Added(map) => map.metadata.name,
            _ => None,
        };
        events.into_iter().filter_map(name).collect::<Vec<String>>().concat()
    };
    assert_eq!(names().await, "d");
    let repeat = WatchFault { repeat: 2, ..WatchFault::default() };
    server.add_fault(FaultRule::new(Fault::Watch(repeat)).verb(Verb::Watch));
    assert_eq!(names().await, "bcd", "in their order");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_withheld() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let bookmarks = async || {
        let stream = api.watch(&WatchParams::default().timeout(200), "0").await.unwrap();
        let events: Vec<_> = stream.try_collect().await.unwrap();
        events.iter().filter(|e| matches!(e, kube::api::WatchEvent::Bookmark(_))).count()
    };
    assert!(bookmarks().await > 2);
    let withhold = WatchFault { withhold_bookmarks: true, ..WatchFault::default() };
    server.add_fault(FaultRule::new(Fault::Watch(withhold)).verb(Verb::Watch));
    assert_eq!(bookmarks().await, 0);
}

/// What clients see, and when, while faults strike by chance.
async fn trace(seed: u64) -> Vec<String> {
    let clock = TokioClock::starting_at("2030-01-01T00:00:00Z".parse().unwrap());
    let began = tokio::time::Instant::now();
    let server = Server::builder().seed(1).clock(Arc::new(clock)).build();
    server.apply_crd(common::widget_crd()).unwrap();
    server.set_faults(FaultPlan::random(seed, FaultRates::all(60)));
    let api = widgets(&server.client("default"), "default");
    let mut lines = Vec::new();
    let mut note = |what: String| lines.push(format!("{:?} {what}", began.elapsed()));
    for n in 0..60 {
        let name = format!("w{}", n % 7);
        note(format!(
            "{:?}",
            api.create(&params(), &widget(&name)).await.map(|w| w.metadata.resource_version)
        ));
        let patch = Patch::Merge(json!({ "spec": { "size": n % 6 } }));
        note(format!("{:?}", api.patch(&name, &PatchParams::default(), &patch).await.map(|w| w.data)));
        note(format!("{:?}", api.list(&ListParams::default().at("0")).await.map(|l| l.items.len())));
        match api.watch(&WatchParams::default().timeout(2), "3").await {
            Ok(stream) => note(format!("{:?}", stream.map_err(|e| e.to_string()).collect::<Vec<_>>().await)),
            Err(error) => note(error.to_string()),
        }
    }
    lines.extend(server.requests().iter().map(|r| format!("{r:?}")));
    lines.push(serde_json::to_string(&server.snapshot()).unwrap());
    lines
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_trace() {
    let first = trace(5).await;
    assert_eq!(first, trace(5).await);
    assert_ne!(first, trace(6).await);
    for text in ["Conflict", "TooManyRequests", "Timeout", "connection refused", "410"] {
        assert!(first.iter().any(|l| l.contains(text)), "{text} never struck");
    }
}

/// Sends a request to a server over HTTP; answers the whole answer.
async fn over_http(address: std::net::SocketAddr, head: &str) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[allow(clippy::disallowed_methods, reason = "the server needs a task of its own")]
async fn served(server: &Server) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, server) = (listener.local_addr().unwrap(), server.clone());
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
    address
}

#[tokio::test]
async fn an_actor_over_http_is_named_by_a_header() {
    let server = server();
    server.add_fault(FaultRule::new(Fault::too_many_requests(7)).actor("robot"));
    let address = served(&server).await;
    let get = "GET /api/v1/namespaces HTTP/1.1";
    let struck = over_http(address, &format!("{get}\r\nx-actor: robot")).await.unwrap();
    assert!(struck.starts_with("HTTP/1.1 429"), "{struck}");
    assert!(struck.to_lowercase().contains("retry-after: 7\r\n"), "{struck}");
    assert!(over_http(address, get).await.unwrap().starts_with("HTTP/1.1 200"));
    let actors: Vec<_> = server.requests().iter().map(|r| r.actor.to_string()).collect();
    assert_eq!(actors, ["robot", "http"]);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_a_request_like_any_other() {
    use kube::client::Body;
    use tower::Service as _;
    let server = server();
    let send = |actor: &str| {
        let body = Body::from(vec![b'x'; 4 * 1024 * 1024]);
        let request = http::Request::post("/api/v1/namespaces/default/configmaps").body(body).unwrap();
        server.service_for(actor).call(request)
    };
    assert_eq!(send("client").await.unwrap().status(), 413);
    assert_eq!(server.count_requests(Verb::Create, "configmaps"), 1);
    assert_eq!(server.requests()[0].code, 413);
    server.add_fault(FaultRule::new(Fault::unavailable()).verb(Verb::Create));
    assert_eq!(send("client").await.unwrap().status(), 503);
    server.fence("old");
    assert!(send("old").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_leaves_nothing_behind() {
    let server = server();
    server.add_fault(FaultRule::new(Fault::Refuse).verb(Verb::Create).times(1));
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let refused = api.create(&params(), &map("a")).await.unwrap_err();
    assert!(!matches!(refused, kube::Error::Api(_)), "{refused}");
    assert_eq!((server.count("ConfigMap"), server.requests()[0].code), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rule_knows_the_subresource() {
    let server = widget_server();
    server.add_fault(FaultRule::new(Fault::conflict()).subresource("status"));
    let api = widgets(&server.client("default"), "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let patch = Patch::Merge(json!({ "status": { "ready": true } }));
    assert_eq!(refusal(api.patch_status("a", &PatchParams::default(), &patch).await).code, 409);
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rule_knows_the_name_of_a_create_and_of_a_watch_of_one() {
    let server = server();
    server.add_fault(FaultRule::new(Fault::unavailable()).name("a"));
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    assert_eq!(refusal(api.create(&params(), &map("a")).await).code, 503);
    api.create(&params(), &map("b")).await.unwrap();
    let one = |name: &str| WatchParams::default().fields(&format!("metadata.name={name}"));
    assert!(matches!(api.watch(&one("a"), "0").await, Err(kube::Error::Api(status)) if status.code == 503));
    assert!(api.watch(&one("b"), "0").await.is_ok());
    let list = ListParams::default().fields("metadata.name=a");
    assert_eq!(refusal(api.list(&list).await).code, 503);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let names: Vec<_> = server.requests().iter().map(|r| r.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "a", "b", "a", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_late_as_a_whole_or_with_every_event() {
    let late = Duration::from_secs(3);
    for fault in [Fault::Delay(late), Fault::Watch(WatchFault { delay: Some(late), ..WatchFault::default() })]
    {
        let server = server();
        server.add_fault(FaultRule::new(fault.clone()).verb(Verb::Watch));
        let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
        api.create(&params(), &map("a")).await.unwrap();
        let began = tokio::time::Instant::now();
        let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
        events.next().await.unwrap().unwrap();
        assert_eq!(began.elapsed(), late, "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_not_served_is_counted_together_and_kept_short() {
    let server = server();
    let address = served(&server).await;
    for path in ["nothings", "nones", &"x".repeat(5_000)] {
        over_http(address, &format!("GET /api/v1/{path} HTTP/1.1")).await.unwrap();
    }
    over_http(address, "GET /version HTTP/1.1").await.unwrap();
    assert_eq!(server.count_requests(Verb::List, ""), 3);
    assert_eq!(server.count_requests(Verb::List, "nothings"), 0);
    assert_eq!(server.count_requests(Verb::Get, ""), 1);
    assert!(server.requests().iter().all(|r| r.resource.len() <= 253));
}

#[tokio::test]
async fn requests_of_many_threads_stand_in_the_log_with_their_codes() {
    let server = server();
    let client = || async {
        let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
        for _ in 0..200 {
            api.list(&ListParams::default()).await.unwrap();
        }
    };
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(client());
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(run))));
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.code == 200));
    assert!(requests.windows(2).all(|w| w[0].number + 1 == w[1].number));
}

#[tokio::test]
async fn a_kind_of_two_groups_is_found_by_its_group() {
    let server = widget_server();
    let mut other = common::widget_crd();
    other["metadata"]["name"] = json!("widgets.other.example.com");
    other["spec"]["group"] = json!("other.example.com");
    server.apply_crd(other).unwrap();
    let mut object = json!({ "kind": "Widget", "metadata": { "name": "a" }, "spec": { "ownerName": "ada" } });
    object["apiVersion"] = json!("other.example.com/v1");
    server.install(object).unwrap();
    for (kind, count) in [
        ("Widget", 0),
        ("Widget.example.com", 0),
        ("Widget.other.example.com", 1),
        ("widgets.other.example.com", 1),
        ("Widget.none", 0),
        ("Widgetother.example.com", 0),
    ] {
        assert_eq!(server.count(kind), count, "{kind}");
        assert_eq!(server.get_object(kind, "default", "a").is_some(), count == 1, "{kind}");
        assert_eq!(server.objects(kind).count(), count, "{kind}");
    }
}

/// Not a test of its own: [`a_server_goes_on_after_the_process_had_no_file_left`] gives it few files.
#[tokio::test]
#[ignore = "run by another test"]
async fn serves_with_few_files() {
    let server = server();
    let address = served(&server).await;
    assert!(over_http(address, "GET /healthz HTTP/1.1").await.unwrap().ends_with("ok"));
    // Nothing is accepted before all files are taken.
    let taken = std::iter::from_fn(|| std::net::TcpStream::connect(address).ok()).collect::<Vec<_>>();
    assert!(!taken.is_empty());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(taken);
    let answer = tokio::time::timeout(Duration::from_mins(1), over_http(address, "GET /healthz HTTP/1.1"));
    assert!(answer.await.unwrap().unwrap().ends_with("ok"));
}

#[test]
fn a_server_goes_on_after_the_process_had_no_file_left() {
    let run = "ulimit -n 40 && exec \"$0\" --ignored --exact serves_with_few_files --nocapture";
    let test = std::env::current_exe().unwrap();
    let ran = std::process::Command::new("sh").args(["-c", run]).arg(test).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[tokio::test]
async fn a_request_that_computes_for_long_holds_no_other_up() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = server();
    let mut crd = common::widget_crd();
    let version = &mut crd["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"] = json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": { "list": { "type": "array", "items": { "type": "integer" } } },
        "x-kubernetes-validations": [{
            "rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))",
        }],
    } } });
    for part in ["selectableFields", "additionalPrinterColumns"] {
        version.as_object_mut().unwrap().remove(part);
    }
    server.apply_crd(crd).unwrap();
    let address = served(&server).await;
    let body = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" },
        "spec": { "list": vec![1; 90] } })
    .to_string();
    let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
    let head =
        "POST /apis/example.com/v1/namespaces/default/widgets HTTP/1.1\r\nHost: x\r\nConnection: close";
    let head = format!("{head}\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    slow.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    while server.count_requests(Verb::Create, "widgets") == 0 {
        tokio::task::yield_now().await;
    }
    assert!(over_http(address, "GET /api/v1/namespaces HTTP/1.1").await.unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(server.count("Widget"), 0, "the slow one was first");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}
