//! What a client and its model are told about the server: the two tools and the instructions.
//!
//! Every limit stands in the text as well as in the schema, since some clients strip `minimum`,
//! `maximum` and `default` before a model sees them.

use crate::config::{BackendChoice, Config};
use crate::run::facts;
use protocol::Language;
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// The tool that runs code.
pub const RUN_CODE: &str = "run_code";
/// The tool that reads what code left in the workspace.
pub const READ_WORKSPACE: &str = "read_workspace";

/// The `_meta` key by which Claude Code learns how long a result may be before it is cut.
const MAX_RESULT_SIZE: &str = "anthropic/maxResultSizeChars";
/// Characters of a result beside the guest's output: exit code, notes, usage, isolation.
const AROUND_OUTPUT: u64 = 16 * 1024;
/// Entries of a listing times the longest name, escaped.
const LISTING: u64 = 256 * 1024;

/// Both tools, in the order in which they are listed.
pub fn all(config: &Config) -> Vec<Tool> {
    vec![run_code(config), read_workspace(config)]
}

/// What a model should know before it calls anything; at most 2,000 characters.
pub fn instructions(config: &Config) -> String {
    format!(
        "Vestibule runs {} code with {RUN_CODE} and reads the files that it leaves with \
         {READ_WORKSPACE}. {} {} {} The last line of every {RUN_CODE} result, `isolation:`, says \
         what really protected the run; `Blocked:` means that nothing was run and says why and \
         what to do.",
        languages(),
        place(config),
        limits(config),
        output(config),
    )
}

fn run_code(config: &Config) -> Tool {
    let description = format!(
        "Run a {} program and return its exit code, stdout and stderr. {} {} {} Read files back \
         with {READ_WORKSPACE}; a PNG, JPEG, GIF or WebP comes back as an image.",
        languages(),
        place(config),
        limits(config),
        output(config),
    );
    let title = match config.backend {
        BackendChoice::Naive => "Run code without a sandbox",
        _ => "Run code in a sandbox",
    };
    let annotations = ToolAnnotations::with_title(title)
        .read_only(false)
        .destructive(!config.workspace_read_only)
        .idempotent(false)
        .open_world(false);
    let tool = Tool::new(RUN_CODE, description, run_code_schema(config))
        .with_title(title)
        .with_annotations(annotations)
        .with_meta(max_result_size(2 * u64::from(config.max_output.get()) + AROUND_OUTPUT));
    if config.structured {
        tool.with_raw_output_schema(Arc::new(object(facts::output_schema())))
    } else {
        tool
    }
}

fn run_code_schema(config: &Config) -> JsonObject {
    let names: Vec<&str> = Language::ALL.into_iter().map(Language::name).collect();
    let code_bytes = config.max_code.get();
    let (default, max) = (config.default_timeout.get(), config.max_timeout.get());
    object(json!({
        "type": "object",
        "properties": {
            "language": {
                "type": "string",
                "enum": names,
                "description": "The language of the code.",
            },
            "code": {
                "type": "string",
                "minLength": 1,
                "description": format!("The program, at most {code_bytes} bytes of UTF-8."),
            },
            "timeout_seconds": {
                "type": "integer",
                "minimum": 1,
                "maximum": max,
                "default": default,
                "description": format!(
                    "Seconds after which the run is ended: 1 to {max}, {default} when left out."
                ),
            },
        },
        "required": ["language", "code"],
        "additionalProperties": false,
    }))
}

fn read_workspace(config: &Config) -> Tool {
    let output_bytes = config.max_output.get();
    let description = format!(
        "Read what {RUN_CODE} left in the workspace: a folder is listed (kind, size and name of at \
         most 200 entries), a text file is returned (cut at {output_bytes} bytes), a PNG, JPEG, \
         GIF or WebP is returned as an image, any other file is named with its size and kind. \
         Links are not followed and nothing outside the workspace can be read."
    );
    let schema = object(json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "default": ".",
                "description": "A file or folder relative to the workspace, such as `plot.png`; \
                                the workspace itself when left out.",
            },
        },
        "additionalProperties": false,
    }));
    let title = "Read the workspace";
    Tool::new(READ_WORKSPACE, description, schema)
        .with_title(title)
        .with_annotations(ToolAnnotations::with_title(title).read_only(true).open_world(false))
        .with_meta(max_result_size(u64::from(config.max_output.get()) + LISTING))
}

/// Where the code runs. The backend `naive` protects nothing, and is not to sound as if it did.
fn place(config: &Config) -> String {
    if config.backend == BackendChoice::Naive {
        let read_only = if config.workspace_read_only { ", and is not kept read-only" } else { "" };
        return format!(
            "There is no sandbox (VESTIBULE_BACKEND=naive): the program runs as the user of this \
             server, with that user's files and network and without stdin. Its working folder is \
             the workspace, which persists between runs{read_only}; /workspace exists in sandboxed \
             runs only."
        );
    }
    let workspace = if config.workspace_read_only {
        "/workspace is the working folder and read-only, and nothing that a run writes elsewhere"
    } else {
        "/workspace is the working folder, writable, and persists between runs; nothing else"
    };
    format!(
        "Each run has a new sandbox without network and without stdin. {workspace} outlives the \
         run. Packages cannot be installed from the network."
    )
}

fn limits(config: &Config) -> String {
    let time = format!(
        "{} s by default and {} s at most per run",
        config.default_timeout, config.max_timeout
    );
    let slots =
        format!("{} bytes of code; {} runs at once", config.max_code, config.max_concurrent);
    if config.backend == BackendChoice::Naive {
        return format!("Limits: {time}; {slots}.");
    }
    format!(
        "Limits (the result's `isolation:` line names those that this machine could not apply): \
         {time}; {} MiB memory; {} % of one CPU core; {} processes; {} MiB in /tmp; {slots}.",
        config.memory, config.cpu, config.pids, config.tmpfs
    )
}

fn output(config: &Config) -> String {
    format!(
        "stdout and stderr are cut at {} bytes each, and a program that prints twice that is \
         ended: write large results to files.",
        config.max_output
    )
}

fn languages() -> String {
    let [first, second, third] = Language::ALL.map(Language::name);
    format!("{first}, {second} or {third}")
}

fn max_result_size(characters: u64) -> MetaObject {
    MetaObject(object(json!({ MAX_RESULT_SIZE: characters })))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> Config {
        let home = [("HOME", "/home/someone")];
        let all = home.iter().chain(settings);
        Config::from_env(all.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn the_instructions_are_short_and_carry_the_limits() {
        let longest = [
            ("VESTIBULE_MAX_TIMEOUT_S", "86400"),
            ("VESTIBULE_MAX_CODE_BYTES", "16777216"),
            ("VESTIBULE_MAX_OUTPUT_BYTES", "8388608"),
            ("VESTIBULE_MEM_MB", "1048576"),
            ("VESTIBULE_PIDS_MAX", "4194304"),
            ("VESTIBULE_TMPFS_MB", "1048576"),
        ];
        for settings in [&longest[..], &[], &[("VESTIBULE_BACKEND", "naive")]] {
            let config = config(settings);
            assert!(config.problems.is_empty());
            let text = instructions(&config);
            assert!(text.chars().count() <= 2000, "{} characters", text.chars().count());
            assert!(text.contains(&format!("{} s at most", config.max_timeout)), "{text}");
        }
    }

    #[test]
    fn the_schema_says_the_same_as_the_text() {
        let config =
            config(&[("VESTIBULE_DEFAULT_TIMEOUT_S", "7"), ("VESTIBULE_MAX_TIMEOUT_S", "33")]);
        let tool = run_code(&config);
        let timeout = &tool.input_schema["properties"]["timeout_seconds"];
        assert_eq!((&timeout["default"], &timeout["maximum"]), (&json!(7), &json!(33)));
        let text = tool.description.unwrap_or_default();
        assert!(text.contains("7 s by default and 33 s at most"), "{text}");
        for word in ["without network", "/workspace", READ_WORKSPACE, "262144 bytes", "256 MiB"] {
            assert!(text.contains(word), "{word} is missing in: {text}");
        }
    }

    #[test]
    fn without_a_sandbox_nothing_is_claimed() {
        let tool = run_code(&config(&[("VESTIBULE_BACKEND", "naive")]));
        let text = tool.description.unwrap_or_default();
        assert!(text.contains("There is no sandbox") && !text.contains("MiB"), "{text}");
    }

    #[test]
    fn an_output_schema_is_published_on_request_alone() {
        assert!(all(&config(&[])).iter().all(|tool| tool.output_schema.is_none()));
        let tools = all(&config(&[("VESTIBULE_STRUCTURED", "1")]));
        assert!(tools[0].output_schema.is_some());
    }
}
