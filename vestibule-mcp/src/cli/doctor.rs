//! `vestibule-mcp doctor`: what this machine can do, and the fix for what it cannot. One page, made to be
//! pasted into a report: whatever it shows passes through [`private`] first.

mod audit;
mod backends;
mod container;
mod images;
#[cfg(target_os = "linux")]
mod interpreters;
mod languages;
mod machine;
#[cfg(target_os = "linux")]
mod native;
mod page;
mod private;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
mod unpacked;
mod versions;

use crate::cli::{for_terminal, say};
use crate::config::Config;
use crate::run::{pipeline, privileges};
use page::{Group, Page};
use protocol::Refusal;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::time::SystemTime;

/// The arguments of `doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How a prerequisite stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// Something weaker or worth knowing; code runs all the same.
    Note,
    /// Not there.
    Missing,
}

/// One prerequisite.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Check {
    group: Group,
    name: String,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    /// A check of a backend; whoever puts it elsewhere says so.
    fn new(name: &str, state: State, detail: impl Into<String>) -> Check {
        let (name, detail) = (name.to_owned(), detail.into());
        Check { group: Group::Backends, name, state, detail, fix: None }
    }

    fn missing(name: &str, refusal: &Refusal) -> Check {
        let at = refusal.at.map(|at| format!(" ({at})")).unwrap_or_default();
        let detail = format!("{}{at}", refusal.what);
        Check { fix: Some(for_terminal(&refusal.fix)), ..Check::new(name, State::Missing, detail) }
    }

    /// The check of something that is refused or is as `detail` says.
    fn of<T>(name: &str, result: &Result<T, Refusal>, detail: impl Fn(&T) -> String) -> Check {
        match result {
            Ok(value) => Check::new(name, State::Ok, detail(value)),
            Err(refusal) => Check::missing(name, refusal),
        }
    }

    /// Something to know, with what can be done about it.
    fn note(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { fix: Some(fix.into()), ..Check::new(name, State::Note, detail) }
    }

    fn within(self, group: Group) -> Check {
        Check { group, ..self }
    }
}

/// Looks at everything, prints it, and returns the exit code: 0 if `run_code` would run at least one
/// language and this could be said, else 1.
pub async fn run(config: Config, arguments: Arguments) -> i32 {
    let page = match private::tidy(
        &diagnose(&config).await,
        &private::Known::new(&config, |name| std::env::var_os(name)),
    ) {
        Ok(page) => page,
        Err(error) => {
            say(format_args!("vestibule-mcp: the page could not be put together: {error}"));
            return 1;
        }
    };
    // A reader who has gone, or a full disk, is no fault of ours to report.
    let printed = print(&page, arguments.json, &mut io::stdout().lock());
    i32::from(!page.ready || printed.is_err())
}

fn print(page: &Page, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(page)?)?;
    } else {
        write!(out, "{page}")?;
    }
    out.flush()
}

async fn diagnose(config: &Config) -> Page {
    let user = privileges::check();
    let variable = |name: &str| std::env::var_os(name);
    let (images, image_checks) = images::look(config, SystemTime::now());
    let mut page = Page {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: protocol::PROTOCOL_VERSION,
        ready: false,
        isolation: None,
        versions: versions::look(config, user.is_ok()).await,
        machine: machine::look(),
        environment: machine::environment(variable),
        settings: settings::changed(config),
        unknown_settings: config.unknown.clone(),
        images,
        checks: Vec::new(),
        languages: Vec::new(),
    };
    page.add(Group::Machine, [Check::of("user", &user, |()| "an ordinary user".to_owned())]);
    page.add(Group::Settings, settings::checks(config));
    page.add(Group::Images, image_checks);
    let (languages, isolation) = match answers(config, &user, &mut page).await {
        Ok(answers) => languages::choose(&answers),
        Err((check, refusal)) => (languages::blocked(check, &refusal), None),
    };
    page.languages = languages;
    page.ready = isolation.is_some();
    page.isolation = isolation.map(|isolation| isolation.to_string());
    page
}

/// What the backends answer for each language; else the row that says why none was asked.
async fn answers(
    config: &Config,
    user: &Result<(), Refusal>,
    page: &mut Page,
) -> Result<Vec<languages::Answers>, (&'static str, Refusal)> {
    // Nothing is made or started on behalf of a user whose calls are all refused.
    user.clone().map_err(|refusal| ("user", refusal))?;
    config.usable().map_err(|refusal| ("settings", refusal))?;
    let sandbox = pipeline::sandbox(config);
    let workspace = Check::of("workspace", &sandbox, |s| s.workspace.display().to_string());
    page.add(Group::Settings, [workspace, audit::check(config)]);
    let sandbox = sandbox.map_err(|refusal| ("workspace", refusal))?;
    let (checks, answers) = backends::look(config, &sandbox).await;
    page.add(Group::Backends, checks);
    answers.map_err(|refusal| ("backend", refusal))
}
