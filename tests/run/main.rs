//! `solar-controller run`: how it is started and ended, and what is written about it.

mod deploy;
mod election;
mod flush;
mod pages;
#[path = "../support/program.rs"]
mod program;
mod proxy;
mod refused;
mod relist;
#[path = "../support/mod.rs"]
mod support;

use solar_controller::reference;

#[test]
fn the_reference_pages_are_what_the_code_says() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    for (name, page) in reference::pages() {
        let written = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert_eq!(written, page, "docs/{name} is out of date: run `make docs`");
    }
}
