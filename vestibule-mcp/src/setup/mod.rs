//! `setup`: pulls the pinned images over the OCI distribution API. Linux alone; elsewhere a container
//! engine pulls.

pub mod decode;
pub mod fetch;
pub mod oci;
pub mod progress;
pub mod registry;
pub mod source;
pub mod unpack;
