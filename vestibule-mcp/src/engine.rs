//! What the server can do, apart from any protocol: run code, read the workspace, end.

use crate::audit::Audit;
use crate::backend::select::Selector;
use crate::config::Config;
use crate::run::admission::Admission;
use crate::run::output::Tee;
use crate::run::pipeline::{self, NotRun, Shared};
use crate::run::report::Report;
use crate::run::{facts, text};
use crate::workspace::reader;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the end of the process waits for what is left of its runs. What is left after that ends
/// by itself: a helper whose pipe is closed cleans up alone.
const SHUT_DOWN: Duration = Duration::from_millis(200);

/// The server's core. One per process, shared by every call.
pub struct Engine {
    shared: Shared,
}

/// What a caller brings beside the arguments.
pub struct Call {
    /// Who calls.
    pub client: Client,
    /// Cancelled when the call is to end at once.
    pub stop: CancellationToken,
    /// Where the state of the call can be watched.
    pub progress: watch::Sender<Progress>,
}

/// An MCP client, as it names itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Client {
    /// Its name; guest-like text, to be escaped wherever it is shown.
    pub name: String,
    /// Its version, likewise.
    pub version: String,
}

/// What a call is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// It waits for a slot.
    Queued,
    /// Its sandbox is being built, or its code runs.
    Running {
        /// When it got its slot.
        since: Instant,
        /// Bytes of output so far, both streams together.
        printed: u64,
    },
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What the model is shown.
    pub content: Vec<Content>,
    /// Whether the call was refused or nothing was executed.
    pub is_error: bool,
    /// The facts of a run, for the result's `_meta` under `vestibule/run`.
    pub facts: Option<Value>,
    /// The structured content, where it is turned on and the call ran something.
    pub structured: Option<Value>,
}

/// One block of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// A picture.
    Image {
        /// Its media type.
        mime: &'static str,
        /// Its bytes in Base64.
        base64: String,
    },
}

impl Reply {
    /// A single text block.
    pub fn text(text: impl Into<String>) -> Reply {
        let content = vec![Content::Text(text.into())];
        Reply { content, is_error: false, facts: None, structured: None }
    }

    /// A call that ran nothing: `Blocked: …`.
    pub fn blocked(why: impl std::fmt::Display) -> Reply {
        Reply { is_error: true, ..Reply::text(format!("Blocked: {why}")) }
    }
}

impl Engine {
    /// The engine of these settings. Touches no file, probes nothing and starts no process.
    pub fn new(config: Config) -> Arc<Engine> {
        for (doubt, _) in config.doubts() {
            tracing::warn!("{doubt}");
        }
        let admission = Admission::new(config.max_concurrent);
        let selector = Selector::new(&config);
        let audit = Audit::new(&config.audit_dir);
        let ending = CancellationToken::new();
        Arc::new(Engine { shared: Shared { config, admission, selector, audit, ending } })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The tool `run_code`.
    pub async fn run_code(&self, arguments: Map<String, Value>, call: Call) -> Reply {
        let report = self.run(arguments, call, None).await;
        match report {
            Ok(report) => self.reply(&report),
            Err(not_run) => Reply::blocked(not_run),
        }
    }

    /// One run, for `run_code` and the command line alike.
    pub(crate) async fn run(
        &self,
        arguments: Map<String, Value>,
        call: Call,
        tee: Option<Tee<'_>>,
    ) -> Result<Report, NotRun> {
        // The end of the process ends every call. The call's own token goes on telling the backend,
        // so there is one thing to watch below here.
        if self.shared.ending.is_cancelled() {
            call.stop.cancel();
        }
        let relay = async {
            self.shared.ending.cancelled().await;
            call.stop.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            report = pipeline::run(&self.shared, arguments, &call, tee) => report,
            () = relay => Err(NotRun::Stopped),
        }
    }

    fn reply(&self, report: &Report) -> Reply {
        Reply {
            is_error: report.is_error(),
            facts: Some(facts::meta(report)),
            structured: self.config().structured.then(|| facts::structured(report)),
            ..Reply::text(text::render(report))
        }
    }

    /// The tool `read_workspace`.
    pub async fn read_workspace(&self, arguments: Map<String, Value>) -> Reply {
        reader::read(self.config(), arguments).await
    }

    /// Ends every run at once; returns when nothing of them is left, after 200 ms at the latest.
    pub async fn shut_down(&self) {
        self.shared.ending.cancel();
        let _ = tokio::time::timeout(SHUT_DOWN, self.shared.admission.all_free()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::PathBuf;

    /// A home with an engine, whose refusals are recorded there.
    struct Home(PathBuf, Arc<Engine>);

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn engine(name: &str, variables: &[(&str, &str)]) -> Home {
        let home = std::env::temp_dir().join(format!("engine-{name}-{}", std::process::id()));
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let all = variables.chain([("HOME".into(), home.clone().into_os_string())]);
        let engine = Engine::new(Config::from_env(all));
        Home(home, engine)
    }

    /// The records in a home.
    fn records(home: &Home) -> Vec<String> {
        let folder = home.0.join(".vestibule/audit");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let text: String =
            files.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect();
        text.lines().map(str::to_owned).collect()
    }

    fn arguments(value: Value) -> Map<String, Value> {
        let Value::Object(arguments) = value else { panic!("{value}") };
        arguments
    }

    async fn run(engine: &Engine, value: Value, stop: CancellationToken) -> Reply {
        let progress = watch::Sender::new(Progress::Queued);
        engine.run_code(arguments(value), Call { client: Client::default(), stop, progress }).await
    }

    fn blocked(reply: &Reply) -> &str {
        match &reply.content[..] {
            [Content::Text(text)] if reply.is_error && text.starts_with("Blocked: ") => text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_invalid_setting_blocks_both_tools_and_comes_before_everything_else() {
        let home = engine("setting", &[("VESTIBULE_MEM_MB", "-3")]);
        let engine = &home.1;
        let run = run(engine, json!({"zzz": 1}), CancellationToken::new()).await;
        let read = engine.read_workspace(arguments(json!({"path": ".."}))).await;
        for reply in [&run, &read] {
            let text = blocked(reply);
            assert!(text.contains("VESTIBULE_MEM_MB is \"-3\""), "{text}");
            assert!(reply.facts.is_none() && reply.structured.is_none());
        }
    }

    #[tokio::test]
    async fn bad_arguments_are_refused_by_name() {
        let home = engine("arguments", &[]);
        let engine = &home.1;
        let code = run(engine, json!({"language": "bash"}), CancellationToken::new()).await;
        assert!(blocked(&code).contains("code is missing"));
        let path = engine.read_workspace(arguments(json!({"paht": "."}))).await;
        assert!(blocked(&path).contains("did you mean path?"));
    }

    #[tokio::test]
    async fn after_the_end_nothing_is_started() {
        let home = engine("end", &[("VESTIBULE_BACKEND", "naive")]);
        let engine = &home.1;
        engine.shut_down().await;
        let call = json!({"language": "bash", "code": "true"});
        let reply = run(engine, call, CancellationToken::new()).await;
        assert!(
            blocked(&reply).ends_with("before its code was started. Fix: call again."),
            "{reply:?}"
        );
        let [record] = &records(&home)[..] else { panic!("one call, one record") };
        assert!(record.contains("\"event\":\"blocked\""), "{record}");
    }
}
