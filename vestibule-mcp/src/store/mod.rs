//! The folder of unpacked images, `VESTIBULE_ROOTFS_DIR`.

pub mod digest;
pub mod inventory;
