//! Administration of permissions.

use std::future::{Ready, ready};

use serde::Serialize;

use super::actions::{blocking, done, why};
use super::answer::{Answer, Fault};
use super::asked::{Asked, Parameter};
use super::endpoint::Api;
use crate::agents::permissions::Administration;

/// The query of `explain`.
pub(super) const EXPLAIN: &[Parameter] = &[
    ("user", "The user."),
    ("position", "Where the user sits."),
    ("application", "Application id [default: 256]."),
    ("service", "The item's service."),
    ("item", "Its name."),
];
/// The query of `who`.
pub(super) const WHO: &[Parameter] =
    &[("service", "The service."), ("pe", "A product of it."), ("subservice", "Or a subservice of it.")];
/// The body of `logout`.
pub(super) const USER: &[Parameter] = &[("user", "The user."), ("why", "Goes to the log.")];
/// The body of `repermission`.
pub(super) const ANYBODY: &[Parameter] = &[("user?", "The user; without one, everybody."), ("why", "Goes to the log.")];

/// The answer to "why".
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Explained {
    /// The item may be seen.
    granted: bool,
    /// Decisions beyond single requirements.
    note: Option<String>,
    /// Every requirement that was looked at, in order.
    findings: Vec<Found>,
}

/// One requirement.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Found {
    /// The subject that has to meet it: the user, the position, the application.
    who: String,
    /// The right that is needed.
    needs: String,
    /// The right that meets it; nothing if it is not met.
    met_by: Option<String>,
}

/// Items that one user has opened today.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Used {
    /// The user.
    user: String,
    /// The service.
    service: String,
    /// The subservice; empty for items without one.
    subservice: String,
    /// How often.
    opens: u64,
}

fn administration(api: &Api) -> Result<Administration, Fault> {
    let off = || Fault::new(409, "permissions are off in this process ([permissions] mode)");
    api.administration.clone().ok_or_else(off)
}

fn wanted<'a>(asked: &'a Asked, name: &str) -> Result<&'a str, Fault> {
    let value = asked.query(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| Fault::new(400, format!("the query says no {name}")))
}

fn number(text: &str, what: &str) -> Result<u32, Fault> {
    text.parse().map_err(|_| Fault::new(400, format!("{what} is a number")))
}

pub(super) async fn users(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let administration = administration(api)?;
    Answer::of(&blocking(move || administration.who_is_on()).await?)
}

pub(super) async fn explain(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let administration = administration(api)?;
    let own = |name: &str| wanted(asked, name).map(str::to_owned);
    let (user, service, item) = (own("user")?, own("service")?, own("item")?);
    let position = asked.query("position").unwrap_or_default().to_owned();
    let application = number(asked.query("application").unwrap_or("256"), "application")?;
    let answer = blocking(move || administration.explain(&user, &position, application, &service, &item)).await?;
    let answer = answer.ok_or_else(|| Fault::new(503, "there are no rights to decide by"))?;
    let found = |f: permissions::rights::Finding| Found { who: f.who.to_string(), needs: f.needs, met_by: f.met_by };
    let findings = answer.findings.into_iter().map(found).collect();
    Answer::of(&Explained { granted: answer.is_granted, note: answer.note, findings })
}

pub(super) fn who(api: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(who_may(api, asked))
}

fn who_may(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let administration = administration(api)?;
    let service = wanted(asked, "service")?;
    let users = match (asked.query("pe"), asked.query("subservice")) {
        (Some(pe), None) => administration.who_has_pe(service, number(pe, "pe")?),
        (None, Some(subservice)) => administration.who_has_subservice(service, subservice),
        _ => return Err(Fault::new(400, "the query says a pe, or a subservice")),
    };
    Answer::of(&users.ok_or_else(|| Fault::new(404, "there is nothing of that name in the rights"))?)
}

pub(super) async fn usage(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let administration = administration(api)?;
    let rows = blocking(move || administration.usage()).await?.into_iter();
    let rows = rows.map(|((user, service, subservice), opens)| Used { user, service, subservice, opens });
    Answer::of(&rows.collect::<Vec<_>>())
}

pub(super) async fn logout(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (administration, why) = (administration(api)?, why(asked)?);
    let user = asked.text("user").ok_or_else(|| Fault::new(400, "say whom: {\"user\": \"...\"}"))?.to_owned();
    let name = user.clone();
    let count = blocking(move || administration.force_logout(&name)).await?;
    if count == 0 {
        return Err(Fault::new(404, format!("{user} is not on")));
    }
    done(asked, format!("user {user} is logged out {count} times: {why}"))
}

pub(super) async fn repermission(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (administration, why) = (administration(api)?, why(asked)?);
    let user = asked.text("user").map(str::to_owned);
    let whose = user.clone().unwrap_or_else(|| "everybody".to_owned());
    blocking(move || administration.repermission(user.as_deref())).await?;
    done(asked, format!("what {whose} has open is checked again: {why}"))
}
