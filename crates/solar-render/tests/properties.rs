//! What holds for every input.

mod common;

use proptest::prelude::*;
use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};
use solar_render::{RenderedChart, render_bootstrap, render_release, unpack};

const MAX_EXACT: i64 = 1 << 53;

/// What stands without quotes in the values.yaml of the sample release.
const WORDS: [&str; 13] = [
    "component",
    "name",
    "label",
    "chart",
    "url",
    "insecure",
    "false",
    "ref",
    "tag",
    "pullSecretName",
    "targetNamespace",
    "valuesJSON",
    "valuesTemplate",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(common::NASTY.to_vec()).prop_map(str::to_owned),
        any::<String>(),
        "[ \t\n\r:#'\"{}\\[\\],&*!|>%@`-]{0,12}",
        "([ \t]{0,2}[a-z:]{0,3}\n){0,4}",
    ]
}

fn number() -> impl Strategy<Value = Number> {
    // Floats whose shortest form has no point are rare among all.
    let short = proptest::sample::select(vec![1e300, -1e16, 1e-7, 5e-324, 2.0]);
    let float = prop_oneof![any::<f64>(), short].prop_filter_map("finite", Number::from_f64);
    prop_oneof![(-MAX_EXACT..=MAX_EXACT).prop_map(Number::from), float, Just(Number::from(MAX_EXACT))]
}

fn tree() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number().prop_map(Value::Number),
        text().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    });
    proptest::collection::vec((text(), value), 0..5).prop_map(|entries| entries.into_iter().collect())
}

/// What `nindent` of Helm's templates makes of a text, below a key.
fn print_below(key: &str, text: &str) -> String {
    let indented = text.replace('\n', "\n    ");
    format!("spec:\n  {key}:\n    {indented}\n")
}

/// Reads YAML by version 1.1: `yes` is a flag and `010` is eight.
fn read_yaml_1_1(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Reads YAML by version 1.2, core schema.
fn read_yaml_1_2(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Reads YAML with libyaml.
fn read_libyaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn readers() -> [fn(&str) -> Value; 3] {
    [read_yaml_1_1, read_yaml_1_2, read_libyaml]
}

/// The scalars of a document that stand without quotes and outside blocks.
fn plain_scalars(text: &str) -> Vec<String> {
    Parser::new_from_str(text)
        .filter_map(|event| match event.expect("YAML").0 {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Some(text.into_owned()),
            _ => None,
        })
        .collect()
}

/// Whether every version of YAML takes a plain scalar for the same number: digits, or digits with a point and perhaps a
/// signed exponent (float of YAML 1.1), and no leading zero (octal there).
fn is_number_everywhere(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "+0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let integer = !unsigned.contains(['.', 'e']);
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && digits(fraction)
        && exponent.strip_prefix(['+', '-']).is_some_and(digits)
        && (integer || mantissa.contains('.'))
}

fn templates(chart: &RenderedChart) -> Vec<(&str, &[u8])> {
    chart
        .files
        .iter()
        .filter(|(path, _)| path.starts_with("templates/"))
        .map(|(path, bytes)| (*path, &bytes[..]))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_values_reach_every_reader_unchanged(values in tree()) {
        let mut config = common::release();
        config.values = values.clone();
        let chart = render_release(&config).expect("a chart");
        for read in readers() {
            let data = read(common::file(&chart, "values.yaml"));
            let json = data["valuesJSON"].as_str().expect("a text");
            prop_assert_eq!(&serde_json::from_str::<Value>(json).expect("JSON"), &Value::Object(values.clone()));
            let printed = print_below("values", json);
            prop_assert_eq!(&read(&printed)["spec"]["values"], &Value::Object(values.clone()));
        }
    }

    #[test]
    fn any_userdata_reaches_every_reader_unchanged(userdata in tree()) {
        let mut config = common::bootstrap();
        config.input.userdata = userdata.clone();
        let chart = render_bootstrap(&config).expect("a chart");
        for read in readers() {
            let data = read(common::file(&chart, "values.yaml"));
            let printed = print_below("userdata", data["userdataJSON"].as_str().expect("a text"));
            prop_assert_eq!(&read(&printed)["spec"]["userdata"], &Value::Object(userdata.clone()));
        }
    }

    #[test]
    fn no_version_of_yaml_guesses_at_a_value(values in tree()) {
        let mut config = common::release();
        config.values = values;
        let chart = render_release(&config).expect("a chart");
        let data = read_libyaml(common::file(&chart, "values.yaml"));
        let printed = print_below("values", data["valuesJSON"].as_str().expect("a text"));
        for scalar in plain_scalars(&printed) {
            let word = matches!(scalar.as_str(), "spec" | "values" | "null" | "true" | "false");
            prop_assert!(word || is_number_everywhere(&scalar), "{scalar:?} stands without quotes in\n{printed}");
        }
        for scalar in plain_scalars(common::file(&chart, "values.yaml")) {
            prop_assert!(WORDS.contains(&scalar.as_str()), "{scalar:?} in values.yaml");
        }
    }

    #[test]
    fn a_values_template_arrives_as_it_was(lines in proptest::collection::vec(text(), 0..5), end in "\n{0,3}") {
        let quoted: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).expect("JSON")).collect();
        let template = format!("# {{{{ .Values }}}}\nlist: [{}]{end}", quoted.join(", "));
        let mut config = common::release();
        let resource = common::entrypoint(&mut config);
        resource.helm.as_mut().expect("a Helm chart").values_template = Some(template.clone());
        if let Ok(chart) = render_release(&config) {
            for read in readers() {
                let data = read(common::file(&chart, "values.yaml"));
                prop_assert_eq!(data["valuesTemplate"].as_str(), Some(template.as_str()));
            }
        }
    }

    #[test]
    fn a_description_arrives_as_it_was(description in text()) {
        let mut config = common::release();
        config.chart.description = description.clone();
        let chart = render_release(&config).expect("a chart");
        for read in readers() {
            let metadata = read(common::file(&chart, "Chart.yaml"));
            prop_assert_eq!(metadata["description"].as_str().unwrap_or_default(), description.as_str());
        }
        let json: Value = serde_json::from_slice(&chart.config).expect("JSON");
        prop_assert_eq!(&json, &read_libyaml(common::file(&chart, "Chart.yaml")));
    }

    #[test]
    fn no_text_of_the_input_is_in_a_template(values in tree(), description in text(), userdata in tree()) {
        let (mut release, mut bootstrap) = (common::release(), common::bootstrap());
        release.values = values;
        release.chart.description = description;
        bootstrap.input.userdata = userdata;
        let (sample, chart) = (render_release(&common::release()).expect("a chart"), render_release(&release).expect("a chart"));
        prop_assert_eq!(templates(&sample), templates(&chart));
        let (sample, chart) = (render_bootstrap(&common::bootstrap()).expect("a chart"), render_bootstrap(&bootstrap).expect("a chart"));
        prop_assert_eq!(templates(&sample), templates(&chart));
    }

    #[test]
    fn equal_input_gives_equal_bytes_that_unpack_to_the_files(values in tree()) {
        let mut config = common::release();
        config.values = values;
        let chart = render_release(&config).expect("a chart");
        prop_assert_eq!(&chart, &render_release(&config.clone()).expect("a chart"));
        let unpacked = unpack(&chart.tgz).expect("an archive");
        let files: Vec<(&str, &[u8])> = chart.files.iter().map(|(path, bytes)| (*path, &bytes[..])).collect();
        let found: Vec<(&str, &[u8])> = unpacked.iter().map(|(path, bytes)| (path.as_str(), &bytes[..])).collect();
        prop_assert_eq!(found, files);
        prop_assert!(chart.has_content_of(&chart.tgz));
    }
}

#[test]
fn every_text_that_readers_mistake_survives_as_key_and_as_value() {
    let values: Map<String, Value> =
        common::NASTY.iter().map(|text| ((*text).to_owned(), Value::from(*text))).collect();
    let mut config = common::release();
    config.values = values.clone();
    let chart = render_release(&config).expect("a chart");
    for read in readers() {
        let data = read(common::file(&chart, "values.yaml"));
        let printed = print_below("values", data["valuesJSON"].as_str().expect("a text"));
        assert_eq!(read(&printed)["spec"]["values"], Value::Object(values.clone()));
    }
}

#[test]
fn numbers_are_written_so_that_yaml_1_1_takes_them_for_numbers() {
    let cases = [
        ("1e300", "1.0e+300"),
        ("-1.5e-7", "-1.5e-7"),
        ("0.1", "0.1"),
        ("2", "2"),
        ("-3", "-3"),
        ("1.0", "1.0"),
        ("1e16", "1.0e+16"),
        ("9007199254740992", "9007199254740992"),
        ("-9007199254740992", "-9007199254740992"),
        ("5e-324", "5.0e-324"),
    ];
    for (input, written) in cases {
        let mut config = common::release();
        config.values = common::object(serde_json::from_str(&format!("{{\"n\":{input}}}")).expect("JSON"));
        let chart = render_release(&config).expect("a chart");
        let data = common::values(&chart);
        assert_eq!(
            data["valuesJSON"].as_str(),
            Some(format!("{{\n  \"n\": {written}\n}}").as_str()),
            "{input}"
        );
    }
}
