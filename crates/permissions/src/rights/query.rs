//! Questions of administrators: why may this user (not) see that item, and who could see product n.

use std::fmt;

use super::{Demand, Guard, Requirements, Rights, Who};
use crate::lock::Lock;

/// One requirement, and how it is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whose right.
    pub who: Who,
    /// What is needed, such as `service IDN` or `IDN: PE 62 | 144`.
    pub needs: String,
    /// What meets it, such as `PE 62 (NYSE)`; `None` when nothing does.
    pub met_by: Option<String>,
}

/// The answer to "why".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Every requirement that was looked at, in order.
    pub findings: Vec<Finding>,
    /// Whether the item may be seen.
    pub is_granted: bool,
    /// What decides beyond single requirements: no guard, an unknown user, an unreadable lock.
    pub note: Option<String>,
}

impl fmt::Display for Explanation {
    /// A line for each requirement, then the verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding { who, needs, met_by } = finding;
            match met_by {
                Some(by) => writeln!(f, "yes  {who}: {needs}: {by}")?,
                None => writeln!(f, "NO   {who}: {needs}: not granted")?,
            }
        }
        if let Some(note) = &self.note {
            writeln!(f, "     {note}")?;
        }
        f.write_str(if self.is_granted { "granted" } else { "denied" })
    }
}

impl Rights {
    /// Why a user at a position, with an application, may or may not see an item with this lock (empty: none).
    pub fn explain(
        &self,
        user: &str,
        position: &str,
        application: u32,
        service: &str,
        item: &str,
        lock: &[u8],
    ) -> Explanation {
        let requirements = self.requirements(user, position, application);
        let index = self.service_index(service);
        let read = (!lock.is_empty()).then(|| Lock::decode(lock));
        let demand = match (index.map(|index| self.service(index).guard), &read) {
            (Some(Guard::Subject), _) => Demand::Subject(item),
            (_, Some(lock)) => Demand::Lock(lock),
            _ => Demand::Service,
        };
        let verdict = self.check(requirements, index, service, demand);
        let findings = index.map_or(Vec::new(), |index| self.findings(requirements, index, item, demand));
        let note = match &verdict {
            _ if self.user(user).is_none() => Some(format!("there is no user called {user}")),
            Ok(()) if index.is_none() => Some("the service is not listed; the policy leaves it open".to_owned()),
            Ok(()) if findings.is_empty() => Some("the service is not guarded".to_owned()),
            Ok(()) => None,
            Err(failure) => Some(failure.to_string()),
        };
        Explanation { findings, is_granted: verdict.is_ok(), note }
    }

    fn findings(&self, requirements: Requirements, index: u16, item: &str, demand: Demand<'_>) -> Vec<Finding> {
        if self.service(index).guard == Guard::Off {
            return Vec::new();
        }
        let Requirements { user, position, application, .. } = requirements;
        let all = [(Who::User, user), (Who::Position, position), (Who::Application, application)];
        let mut findings = Vec::new();
        for (who, grants) in all.into_iter().filter_map(|(who, grants)| Some((who, grants?))) {
            let mut services = vec![index];
            if let Demand::Lock(Ok(lock)) = demand {
                services = lock
                    .services
                    .iter()
                    .filter_map(|list| self.lock_service(self.service(index), list.service).ok())
                    .collect();
                services.insert(0, index);
                services.dedup();
            }
            for service in services {
                let name = &self.service(service).name;
                let met_by = self.grants[grants as usize].get(&service).map(|_| "has the service".to_owned());
                findings.push(Finding { who, needs: format!("service {name}"), met_by });
            }
            match demand {
                Demand::Lock(Ok(lock)) => self.group_findings(who, grants, index, lock, &mut findings),
                Demand::Subject(_) => findings.extend(self.subject_finding(who, grants, index, item)),
                _ => {}
            }
        }
        findings
    }

    fn group_findings(&self, who: Who, grants: u32, index: u16, lock: &Lock, findings: &mut Vec<Finding>) {
        for list in &lock.services {
            let Ok(target) = self.lock_service(self.service(index), list.service) else { continue };
            let service = self.service(target);
            let grant = self.grants[grants as usize].get(&target);
            for group in &list.groups {
                let held = grant.and_then(|grant| Some((grant, group.iter().find(|pe| grant.has_pe(service, **pe))?)));
                let met_by = held.map(|(grant, pe)| match service.mapped(*pe) {
                    _ if grant.all => format!("PE {pe} (everything is granted)"),
                    Some(expression) if !grant.names_pe(*pe) => {
                        format!("PE {pe} ({})", expression.text(&|index| &service.subservices[usize::from(index)].0))
                    }
                    _ => format!("PE {pe}"),
                });
                let pes = group.iter().map(u32::to_string).collect::<Vec<_>>().join(" | ");
                findings.push(Finding { who, needs: format!("{}: PE {pes}", service.name), met_by });
            }
        }
    }

    fn subject_finding(&self, who: Who, grants: u32, index: u16, item: &str) -> Option<Finding> {
        let service = self.service(index);
        let grant = self.grants[grants as usize].get(&index)?;
        let (pattern, expression) = service.subjects.iter().find(|(pattern, _)| pattern.matches(item))?;
        let text = expression.text(&|index| &service.subservices[usize::from(index)].0);
        let is_met = grant.all || expression.holds(&|index| grant.has_subservice(index));
        Some(Finding {
            who,
            needs: format!("{item} ({pattern}): {text}"),
            met_by: is_met.then(|| "granted".to_owned()),
        })
    }

    /// The users who have a PE of a service, by name.
    pub fn who_has_pe(&self, service: &str, pe: u32) -> Vec<&str> {
        let Some(index) = self.service_index(service) else { return Vec::new() };
        self.who(|grants| grants.get(&index).is_some_and(|grant| grant.has_pe(self.service(index), pe)))
    }

    /// The users who have a subservice of a service, by name; `None` if the service has none of that name.
    pub fn who_has_subservice(&self, service: &str, subservice: &str) -> Option<Vec<&str>> {
        let index = self.service_index(service)?;
        let subservice = self.service(index).subservice(subservice)?;
        Some(self.who(|grants| grants.get(&index).is_some_and(|grant| grant.has_subservice(subservice))))
    }

    fn who(&self, has: impl Fn(&super::Grants) -> bool) -> Vec<&str> {
        let users = self.users.iter().filter(|(_, user)| has(&self.grants[user.grants as usize]));
        users.map(|(name, _)| &**name).collect()
    }
}
