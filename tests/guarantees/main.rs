//! The guarantees, one module each, tested end to end on the release builds.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod audit;
mod capabilities;
mod cli_run;
mod container_backend;
mod container_ends;
mod descriptors;
mod doctor;
mod environment;
mod image_rootfs;
mod isolation_filesystem;
mod isolation_network;
mod isolation_processes;
mod kill_any_process;
mod life;
mod no_network;
mod old_kernels;
mod output;
mod project;
mod protocol_order;
mod refusals;
mod root_refused;
mod settings;
mod setup_engines;
mod spec_by_hand;
mod syscalls;
mod text_contract;
mod timeout;
mod workspace_reader;

fn main() -> std::process::ExitCode {
    let modules = [
        audit::tests(),
        capabilities::tests(),
        cli_run::tests(),
        container_backend::tests(),
        container_ends::tests(),
        descriptors::tests(),
        doctor::tests(),
        environment::tests(),
        image_rootfs::tests(),
        isolation_filesystem::tests(),
        isolation_network::tests(),
        isolation_processes::tests(),
        kill_any_process::tests(),
        life::tests(),
        no_network::tests(),
        old_kernels::tests(),
        output::tests(),
        project::tests(),
        protocol_order::tests(),
        refusals::tests(),
        root_refused::tests(),
        settings::tests(),
        setup_engines::tests(),
        spec_by_hand::tests(),
        syscalls::tests(),
        text_contract::tests(),
        timeout::tests(),
        workspace_reader::tests(),
    ];
    tests::harness::main(modules.into_iter().flatten().collect())
}
