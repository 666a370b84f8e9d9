//! One file per promise.

mod guest_bad_components;
mod guest_confined;
mod guest_limits;
mod guest_support;
