use solar_core::content::ContentHash;
use solar_core::fit::fit;
use solar_core::hash::{PayloadHash, canonical_json, hash8, sha256_hex};
use solar_core::object::ObjectName;
use solar_core::target::Coordinates;
use solar_core::{layout, names};

fn coordinates() -> Coordinates {
    Coordinates {
        base_url: "registry.example.com".into(),
        repository: "edge/team/release-web".into(),
        tag: "v0.0.3-1a2b3c4d".into(),
    }
}

#[test]
fn objects_are_named_as_the_contract_says() {
    let release = ObjectName::new("team", "web");
    assert_eq!(names::artifact_at("edge", &coordinates()), "render-art-8113a6d9");
    assert_eq!(names::binding("render-art-8113a6d9", "berlin"), "render-bind-ba67e599");
    assert_eq!(names::release_task(&release, "berlin", &coordinates()), "render-rel-web-6bda262c");
    assert_eq!(names::bootstrap_task("berlin", 12), "render-tgt-berlin-12");
    let target = ObjectName::new("edge", "berlin");
    assert_eq!(names::profile_binding("web", "uid-1", &target), "web-berlin-cac11e5d");
}

#[test]
fn names_beyond_the_limit_keep_their_beginning_and_end_in_a_hash_of_the_whole() {
    let long = "a".repeat(253);
    let task = names::release_task(&ObjectName::new("team", long.as_str()), "berlin", &coordinates());
    assert_eq!(task, format!("render-rel-{}-f9615291", "a".repeat(233)));
    assert_eq!(names::bootstrap_task(&long, 12), format!("render-tgt-{}-b2bad184", "a".repeat(233)));
    let target = ObjectName::new("edge", "b".repeat(63).as_str());
    let binding = names::profile_binding(&"a".repeat(63), "uid-1", &target);
    assert_eq!(binding, format!("{}-71a35893", "a".repeat(54)));
}

#[test]
fn fitting_splits_no_character_and_leaves_no_separator_before_the_hash() {
    for (name, limit, fitted) in [
        ("abcdefghij-klmnopqrst", 21, "abcdefghij-klmnopqrst"),
        ("abcdefghij-klmnopqrst", 20, "abcdefghij-61384271"),
        ("ääääääääää", 14, "ää-e81e4a27"),
        ("aaaa.-bbbbbbbbbbbb", 15, "aaaa-7bfdfdad"),
        ("----------------", 15, "1772a413"),
        ("abcdefghij-klmnopqrst", 4, "6138"),
        ("", 0, ""),
    ] {
        assert_eq!(fit(name, limit), fitted, "{name} at {limit}");
    }
}

#[test]
fn charts_lie_where_the_layout_says() {
    let release = ObjectName::new("team", "web");
    let target = ObjectName::new("edge", "berlin");
    assert_eq!(layout::release_repository("edge", &release), "edge/team/release-web");
    assert_eq!(layout::bootstrap_repository(&target), "edge/bootstrap-berlin");
    assert_eq!(layout::chart_name("edge/team/release-web"), "release-web");
    let hash = ContentHash::parse("1a2b3c4d").unwrap();
    assert_eq!(layout::release_tag(3, &hash), "v0.0.3-1a2b3c4d");
    assert_eq!(layout::bootstrap_tag(12), "v0.0.12");
    assert_eq!(
        layout::chart_url("[::1]:5000", "edge/bootstrap-berlin", "v0.0.1"),
        "oci://[::1]:5000/edge/bootstrap-berlin:v0.0.1"
    );
}

#[test]
fn a_repository_never_exceeds_its_limits() {
    let release = ObjectName::new("team", "a".repeat(253).as_str());
    let expected = format!("edge/team/release-{}-a2fd85a3", "a".repeat(228));
    assert_eq!(layout::release_repository("edge", &release), expected);
    assert_eq!(expected.len(), 255);
    let short = ObjectName::new("t", "a".repeat(253).as_str());
    let repository = layout::release_repository("e", &short);
    assert_eq!(layout::chart_name(&repository).len(), 250);
}

#[test]
fn tags_are_read_back_only_in_the_form_in_which_they_are_written() {
    let hash = ContentHash::parse("0000000a").unwrap();
    assert_eq!(layout::parse_release_tag("v0.0.7-0000000a"), Some((7, hash)));
    for tag in [
        "v0.0.7",
        "v0.0.07-0000000a",
        "v0.0.+7-0000000a",
        "v0.0.-7-0000000a",
        "0.0.7-0000000a",
        "v0.0.7-0000000A",
        "v0.0.7-00000001",
        "v0.0.7-000000a",
        "v0.0.7-0000000a0",
        "v0.0.9223372036854775808-0000000a",
        "latest",
        "",
    ] {
        assert_eq!(layout::parse_release_tag(tag), None, "{tag}");
    }
    assert_eq!(layout::parse_bootstrap_tag("v0.0.7"), Some(7));
    assert_eq!(layout::parse_bootstrap_tag("v0.0.9007199254740991"), Some(layout::MAX_BOOTSTRAP_VERSION));
    for tag in [
        "v0.0.7-0000000a",
        "v0.0.",
        "v0.0.07",
        "v0.0.x",
        "v0.1.7",
        "v0.0.9007199254740992",
        "v0.0.9223372036854775807",
    ] {
        assert_eq!(layout::parse_bootstrap_tag(tag), None, "{tag}");
    }
}

#[test]
fn hashes_are_sha_256_of_canonical_json() {
    assert_eq!(hash8(""), "e3b0c442");
    assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let value: serde_json::Value =
        serde_json::from_str(r#"{"z":1.5,"a":[1,{"c":"x\"y","b":null}]}"#).unwrap();
    assert_eq!(canonical_json(&value), r#"{"a":[1,{"b":null,"c":"x\"y"}],"z":1.5}"#);
    let hex = "9f5787db456a9b59330dca26f325449d52e1bd76dcd83631b6a0cb4711a7983f";
    assert_eq!(PayloadHash::of(&value).to_hex(), hex);
    assert_eq!(format!("{:?}", PayloadHash::of(&value)), hex);
}

#[test]
fn an_absent_object_is_the_same_as_an_empty_one() {
    let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(PayloadHash::of_object(None).to_hex(), empty);
    assert_eq!(PayloadHash::of_object(Some(&serde_json::Map::new())).to_hex(), empty);
}
