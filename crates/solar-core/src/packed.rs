//! What is kept for long and looked at rarely, in few bytes, which are compared as they are.

use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use solar_api as api;
use solar_api::conditions as words;

/// A value as bytes. Two are equal when their values are.
pub struct Packed<T> {
    bytes: Box<[u8]>,
    of: PhantomData<fn() -> T>,
}

impl<T: Pack> Packed<T> {
    /// Packs `value`.
    pub fn of(value: &T) -> Self {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        Self { bytes: bytes.into(), of: PhantomData }
    }

    /// The value again.
    ///
    /// # Panics
    /// Never: only [`Self::of`] makes the bytes.
    pub fn get(&self) -> T {
        T::read(&mut &*self.bytes).expect("what was packed can be unpacked")
    }
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Packed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Packed<T> {}

impl<T: Pack + Default> Default for Packed<T> {
    fn default() -> Self {
        Self::of(&T::default())
    }
}

impl<T: Pack + fmt::Debug> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// What can be packed. Different values make different bytes, and equal ones the same.
pub trait Pack: Sized {
    /// Puts the value behind `to`.
    fn write(&self, to: &mut Vec<u8>);
    /// Takes a value off the beginning of `from`; `None` when there is none.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

/// What conditions say most of the time: each is one byte. One that is not here is written out, so that nothing hangs on
/// this list but memory.
const KNOWN: &[&str] = &[
    "True",
    "False",
    "Unknown",
    words::ready::TYPE,
    words::registry_resolved::TYPE,
    words::releases_resolved::TYPE,
    words::releases_rendered::TYPE,
    words::bootstrap_ready::TYPE,
    words::target_resolved::TYPE,
    words::release_resolved::TYPE,
    words::registry_resolved::RESOLVED,
    words::releases_resolved::NO_CONFLICTS,
    words::releases_rendered::ALL_RENDERED,
    words::bootstrap_ready::RENDERING,
    words::bootstrap_ready::WAITING,
    words::releases_rendered::PENDING,
    words::render_task::JOB_SUCCEEDED,
    words::render_task::JOB_SCHEDULED,
    words::render_task::JOB_FAILED,
    "The bootstrap chart can be pulled",
    "Every bound release is accepted",
    "Every accepted release has its chart",
    "is being rendered and pushed, or waits for a chart of the same content",
];

fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

impl Pack for u64 {
    fn write(&self, to: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            to.push(low_byte(rest) | 0x80);
            rest >>= 7;
        }
        to.push(low_byte(rest));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = from.split_first()?;
            *from = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

impl Pack for i64 {
    // The sign goes to the lowest bit, so that small negative numbers are short as well.
    fn write(&self, to: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let value = u64::read(from)?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

impl Pack for i32 {
    fn write(&self, to: &mut Vec<u8>) {
        i64::from(*self).write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        i64::read(from)?.try_into().ok()
    }
}

impl Pack for String {
    // Twice the length, or twice the place among the known texts and one.
    fn write(&self, to: &mut Vec<u8>) {
        if let Some(place) = KNOWN.iter().position(|known| known == self) {
            (2 * place as u64 + 1).write(to);
        } else {
            (2 * self.len() as u64).write(to);
            to.extend_from_slice(self.as_bytes());
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let head = u64::read(from)?;
        let number = usize::try_from(head / 2).ok()?;
        if head % 2 == 1 {
            return KNOWN.get(number).map(|known| (*known).to_owned());
        }
        let (text, rest) = from.split_at_checked(number)?;
        *from = rest;
        std::str::from_utf8(text).ok().map(ToOwned::to_owned)
    }
}

impl Pack for Time {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.as_second().write(to);
        self.0.subsec_nanosecond().write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        Timestamp::new(i64::read(from)?, i32::read(from)?).ok().map(Time)
    }
}

impl<T: Pack> Pack for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let (is_some, rest) = from.split_first()?;
        *from = rest;
        if *is_some == 0 { Some(None) } else { T::read(from).map(Some) }
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u64).write(to);
        for value in self {
            value.write(to);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        (0..u64::read(from)?).map(|_| T::read(from)).collect()
    }
}

/// Packs a struct field by field. One that gets a new field does not compile until it is named here.
macro_rules! pack_fields {
    ($($type:ty { $($field:ident),* })*) => {
        $(impl Pack for $type {
            fn write(&self, to: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.write(to);)*
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Pack::read(from)?),* })
            }
        })*
    };
}

pack_fields! {
    Condition { type_, status, reason, message, observed_generation, last_transition_time }
    api::TargetStatus { bootstrap_version, chart_url, observed_generation, conditions }
    api::ReleaseStatus { conditions, effective_unique_name, render_task_ref }
    api::ComponentVersionStatus { conditions, descriptor_missing_since, observed_recheck }
    api::ProfileStatus { matched_targets, conditions }
    api::RenderTaskStatus { conditions, chart_url, digest, attempts, observed_render_request }
    api::RenderArtifactStatus { chart_url, digest, conditions }
}
