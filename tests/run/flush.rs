//! What is queued at the end is still written, within the grace period.

use std::time::Duration;

use kube_embedded::{Fault, FaultRule, Verb};
use solar_controller::actors::root::State;
use solar_controller::adapters::kubernetes::Regarding;
use solar_core::object::ObjectName;
use solar_core::target::EventOrder;
use tokio::time::Instant;

use crate::support::{Simulation, on_paused_time};

fn emit(sim: &Simulation, number: usize) {
    for number in 0..number {
        let regarding =
            Regarding { kind: "Target", name: ObjectName::new("default", "edge"), uid: "1".into() };
        let order = EventOrder { warning: false, reason: "Tested", note: format!("event {number}") };
        sim.running.shared.events.emit(regarding, order);
    }
}

#[test]
fn events_that_are_queued_are_written_before_the_end() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.until("it runs", |sim| *sim.running.state.borrow() == State::Running).await;
        emit(&sim, 50);
        sim.running.shut_down().await;
        assert_eq!(*sim.running.state.borrow(), State::Stopped);
        assert_eq!(sim.server.count("events"), 50);
    });
}

#[test]
fn events_that_cannot_be_written_do_not_hold_up_the_end() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.until("it runs", |sim| *sim.running.state.borrow() == State::Running).await;
        sim.server.add_fault(FaultRule::new(Fault::Hang).verb(Verb::Create).resource("events"));
        emit(&sim, 50);
        let began = Instant::now();
        sim.running.shut_down().await;
        let grace = sim.running.shared.options.shutdown_grace;
        assert!(began.elapsed() <= grace + Duration::from_millis(100), "{:?}", began.elapsed());
    });
}
