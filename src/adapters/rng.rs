//! The randomness port: one seed gives every actor its own generator, the same in every run.

use sha2::{Digest as _, Sha256};

/// The generator of `who` in the run with `seed`.
pub fn seeded(seed: u64, who: &str) -> fastrand::Rng {
    let hash = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(who.as_bytes()).finalize();
    let mut bytes = [0_u8; 8];
    bytes.copy_from_slice(&hash[..8]);
    fastrand::Rng::with_seed(u64::from_le_bytes(bytes))
}
