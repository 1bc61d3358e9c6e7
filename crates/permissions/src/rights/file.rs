//! The rights file: TOML, read and checked as a whole. Every fault is told at once, with its line and the nearest key.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expression::Expression;
use super::{
    Application, CountBy, Grant, GrantId, Grants, Guard, Kind, Limits, Pattern, Policy, Position, PostGrant,
    PostRights, Rights, Service, User,
};

/// Something wrong in a rights file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what is near.
    pub what: String,
}

/// A rights file that is not taken; the rights stay what they were.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct RightsError {
    /// The file's name, as it was given.
    pub origin: String,
    /// At least one, by line.
    pub faults: Vec<Fault>,
}

impl fmt::Display for RightsError {
    /// `FILE:LINE: what`, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let end = if index + 1 < self.faults.len() { "\n" } else { "" };
            write!(f, "{}:{}: {}{end}", self.origin, fault.line, fault.what)?;
        }
        Ok(())
    }
}

type Value<'t> = Spanned<DeValue<'t>>;

const SECTIONS: [&str; 8] = ["version", "policy", "services", "groups", "users", "positions", "applications", "end"];
const SERVICE_KEYS: [&str; 10] = [
    "id",
    "guard",
    "accept_lock_service_ids",
    "translate_lock_service_ids",
    "override_lock_service_id",
    "exchange_logic",
    "product_logic",
    "subservices",
    "pe",
    "subjects",
];
const USER_KEYS: [&str; 8] =
    ["groups", "grants", "post", "max_positions", "max_mounts", "item_limit", "applications", "positions"];

impl Rights {
    /// Reads a rights file; `origin` names it in messages.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn parse(origin: &str, text: &str) -> Result<Self, RightsError> {
        let mut reader = Reader { text, faults: Vec::new(), rights: Self::default(), known_grants: HashMap::new() };
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            reader.fault(error.span().map_or(0, |span| span.start), error.message());
        }
        if reader.faults.is_empty() {
            reader.document(document.get_ref());
        }
        reader.end(origin)
    }

    /// These rights with one user more, or another user of this name: what a source of rights that is asked user by user
    /// answers. `text` holds the keys of the user's section.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn with_user(&self, origin: &str, name: &str, text: &str) -> Result<Self, RightsError> {
        let known_grants = self.grants.iter().cloned().zip(0..).collect();
        let mut reader = Reader { text, faults: Vec::new(), rights: self.clone(), known_grants };
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            reader.fault(error.span().map_or(0, |span| span.start), error.message());
        }
        if reader.faults.is_empty() {
            let keys = reader.entries("the user", document.get_ref(), &USER_KEYS);
            reader.user(name, &keys);
        }
        reader.end(origin)
    }

    /// These rights without a user.
    #[must_use]
    pub fn without_user(&self, name: &str) -> Self {
        let mut rights = self.clone();
        rights.users.remove(name);
        rights
    }
}

struct Reader<'t> {
    text: &'t str,
    /// Each with its offset.
    faults: Vec<(usize, String)>,
    rights: Rights,
    /// Equal grants are held once.
    known_grants: HashMap<Grants, GrantId>,
}

/// The entries of a table, by key.
type Keys<'v, 't> = BTreeMap<&'v str, &'v Value<'t>>;

impl<'t> Reader<'t> {
    fn fault(&mut self, at: usize, what: &str) {
        self.faults.push((at, what.to_owned()));
    }

    fn end(mut self, origin: &str) -> Result<Rights, RightsError> {
        if self.faults.is_empty() {
            return Ok(self.rights);
        }
        self.faults.sort();
        let line = |at: usize| self.text[..self.text.floor_char_boundary(at)].matches('\n').count() + 1;
        let faults = self.faults.iter().map(|(at, what)| Fault { line: line(*at), what: what.clone() }).collect();
        Err(RightsError { origin: origin.to_owned(), faults })
    }

    /// A table's entries; keys that are not known are faults.
    fn entries<'v>(&mut self, place: &str, table: &'v DeTable<'t>, known: &[&str]) -> Keys<'v, 't> {
        for (key, _) in table.iter().filter(|(key, _)| !known.contains(&&**key.get_ref())) {
            let hint = nearest(key.get_ref(), known.iter().copied());
            self.fault(key.span().start, &format!("there is no key {} in {place}{hint}", key.get_ref()));
        }
        table.iter().map(|(key, value)| (&**key.get_ref(), value)).collect()
    }

    fn table<'v>(&mut self, place: &str, value: Option<&'v Value<'t>>) -> Option<&'v DeTable<'t>> {
        let value = value?;
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.fault(value.span().start, &format!("{place} is a table, not {}", other.type_str()));
                None
            }
        }
    }

    fn string<'v>(&mut self, place: &str, value: &'v Value<'t>) -> Option<&'v str> {
        match value.get_ref() {
            DeValue::String(text) => Some(text),
            other => {
                self.fault(value.span().start, &format!("{place} is text in quotes, not {}", other.type_str()));
                None
            }
        }
    }

    fn flag(&mut self, place: &str, value: Option<&Value<'t>>) -> bool {
        match value.map(Spanned::get_ref) {
            None => false,
            Some(DeValue::Boolean(flag)) => *flag,
            Some(other) => {
                let what = format!("{place} is true or false, not {}", other.type_str());
                self.fault(value.map_or(0, |value| value.span().start), &what);
                false
            }
        }
    }

    fn number<N: std::str::FromStr>(&mut self, place: &str, value: &Value<'t>) -> Option<N> {
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.fault(value.span().start, &format!("{place} is a whole number in range"));
        }
        number
    }

    fn list<'v>(&mut self, place: &str, value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
        match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            DeValue::String(_) | DeValue::Integer(_) => vec![value],
            other => {
                self.fault(value.span().start, &format!("{place} is a list in brackets, not {}", other.type_str()));
                Vec::new()
            }
        }
    }

    fn choice<T: Copy>(&mut self, place: &str, value: Option<&Value<'t>>, choices: &[(&str, T)]) -> Option<T> {
        let value = value?;
        let text = self.string(place, value)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.fault(value.span().start, &format!("{place} is one of {}, not {text:?}", names.join(", ")));
        }
        found
    }

    fn document(&mut self, document: &DeTable<'t>) {
        let keys = self.entries("a rights file", document, &SECTIONS);
        if let Some(version) = keys.get("version") {
            self.rights.version = self.string("version", version).unwrap_or_default().into();
        }
        if let Some(policy) = self.table("policy", keys.get("policy").copied()) {
            self.policy(policy);
        }
        if let Some(end) = self.table("[end]", keys.get("end").copied()) {
            self.entries("[end]", end, &[]);
        }
        let sections = ["services", "groups", "applications", "positions", "users"];
        for section in sections {
            let Some(table) = self.table(section, keys.get(section).copied()) else { continue };
            // Services may name each other's ids only when all are read; groups come before whoever is in them.
            for (key, value) in table {
                let name = &**key.get_ref();
                let place = format!("[{section}.{name}]");
                if let Some(table) = self.table(&place, Some(value)) {
                    self.entry(section, name, &place, key.span().start, table);
                }
            }
        }
    }

    fn entry(&mut self, section: &str, name: &str, place: &str, at: usize, table: &DeTable<'t>) {
        match section {
            "services" => {
                let keys = self.entries(place, table, &SERVICE_KEYS);
                self.service(name, place, at, &keys);
            }
            "groups" => {
                let keys = self.entries(place, table, &["grants", "post"]);
                let grants = self.grants(keys.get("grants").copied());
                let posts = self.posts(keys.get("post").copied());
                self.rights.groups.insert(name.into(), (grants, posts));
            }
            "applications" => {
                let keys = self.entries(place, table, &["name", "groups", "grants"]);
                let grants = self.own_profile(&keys);
                match name.parse() {
                    Ok(id) => {
                        self.rights.applications.insert(id, Application { grants });
                    }
                    Err(_) => {
                        self.fault(at, &format!("{place}: an application is a number, such as [applications.256]"));
                    }
                }
            }
            "positions" => {
                let keys = self.entries(place, table, &["allowed", "groups", "grants"]);
                let grants = self.own_profile(&keys);
                let is_allowed = !keys.contains_key("allowed") || self.flag("allowed", keys.get("allowed").copied());
                if let Some(pattern) = self.pattern(at, name) {
                    self.rights.positions.push(Position { pattern, is_allowed, grants });
                }
            }
            _ => {
                let keys = self.entries(place, table, &USER_KEYS);
                self.user(name, &keys);
            }
        }
    }

    /// A pattern from its text, or a fault.
    fn pattern(&mut self, at: usize, text: &str) -> Option<Pattern> {
        Pattern::parse(text).map_err(|error| self.fault(at, &error.to_string())).ok()
    }

    fn pattern_of(&mut self, what: &str, value: &Value<'t>) -> Option<Pattern> {
        let at = value.span().start;
        let text = self.string(what, value)?.to_owned();
        self.pattern(at, &text)
    }

    fn policy(&mut self, table: &DeTable<'t>) {
        let keys = self.entries("[policy]", table, &["unlisted_services", "show_denied_services", "count_logins_by"]);
        let open = [("deny", false), ("allow", true)];
        let counts = [("position", CountBy::Position), ("connection", CountBy::Connection)];
        let unlisted = self.choice("unlisted_services", keys.get("unlisted_services").copied(), &open);
        let count_by = self.choice("count_logins_by", keys.get("count_logins_by").copied(), &counts);
        self.rights.policy = Policy {
            allow_unlisted_services: unlisted.unwrap_or_default(),
            show_denied_services: self.flag("show_denied_services", keys.get("show_denied_services").copied()),
            count_by: count_by.unwrap_or_default(),
        };
    }

    fn service(&mut self, name: &str, place: &str, at: usize, keys: &Keys<'_, 't>) {
        let guards = [("off", Guard::Off), ("subject", Guard::Subject), ("content", Guard::Content)];
        let guard = self.choice("guard", keys.get("guard").copied(), &guards).unwrap_or_default();
        let id = match keys.get("id") {
            Some(value) => self.number("id", value),
            None if guard == Guard::Off => Some(0),
            None => {
                self.fault(at, &format!("{place} has no id: the number of the service in locks"));
                None
            }
        };
        let mut service = Service {
            name: name.into(),
            id: id.unwrap_or(0),
            guard,
            accepted_ids: Vec::new(),
            translated_ids: BTreeMap::new(),
            overrides_id: self.flag("override_lock_service_id", keys.get("override_lock_service_id").copied()),
            subservices: self.subservices(keys.get("subservices").copied()),
            map: Vec::new(),
            subjects: Vec::new(),
        };
        if let Some(ids) = keys.get("accept_lock_service_ids") {
            for id in self.list("accept_lock_service_ids", ids) {
                service.accepted_ids.extend(self.number::<u16>("a service id", id));
            }
        }
        if let Some(ids) = self.table("translate_lock_service_ids", keys.get("translate_lock_service_ids").copied()) {
            for (from, to) in ids {
                match (from.get_ref().parse(), self.number("a service id", to)) {
                    (Ok(from), Some(to)) => _ = service.translated_ids.insert(from, to),
                    (Err(_), _) => self.fault(from.span().start, "a service id is a number, 0 to 65535"),
                    _ => {}
                }
            }
        }
        let logic = [("and", true), ("or", false)];
        let exchanges = self.choice("exchange_logic", keys.get("exchange_logic").copied(), &logic).unwrap_or(false);
        let products = self.choice("product_logic", keys.get("product_logic").copied(), &logic).unwrap_or(false);
        self.map(&mut service, keys.get("pe").copied(), exchanges, products);
        if let Some(subjects) = self.table("subjects", keys.get("subjects").copied()) {
            for (pattern, value) in subjects {
                let expression = self.expression(&service, value, exchanges, products);
                let pattern = self.pattern(pattern.span().start, pattern.get_ref());
                service.subjects.extend(pattern.zip(expression));
            }
        }
        let index = self.rights.services.len() as u16;
        if service.guard != Guard::Off
            && id.is_some()
            && let Some(other) = self.rights.service_ids.insert(service.id, index)
        {
            let other = &self.rights.services[usize::from(other)].name;
            let what = format!("{place} has the id {}, which {other} has, too", service.id);
            self.fault(at, &what);
        }
        self.rights.service_names.insert(name.into(), index);
        self.rights.services.push(service);
    }

    fn subservices(&mut self, value: Option<&Value<'t>>) -> Vec<(Box<str>, Kind)> {
        let kinds = [("product", Kind::Product), ("exchange", Kind::Exchange), ("specialist", Kind::Specialist)];
        let Some(table) = self.table("subservices", value) else { return Vec::new() };
        let mut subservices = Vec::new();
        for (name, kind) in table {
            if let Some(kind) = self.choice("the kind of a subservice", Some(kind), &kinds) {
                subservices.push((name.get_ref().as_ref().into(), kind));
            }
        }
        subservices
    }

    fn map(&mut self, service: &mut Service, value: Option<&Value<'t>>, exchanges: bool, products: bool) {
        let Some(table) = self.table("pe", value) else { return };
        for (key, value) in table {
            let Some((low, high)) = range(key.get_ref()) else {
                self.fault(
                    key.span().start,
                    &format!("{:?} is neither a PE code nor a range such as \"100-199\"", key.get_ref()),
                );
                continue;
            };
            let Some(expression) = self.expression(service, value, exchanges, products) else { continue };
            let at = service.map.partition_point(|(other, ..)| *other < low);
            let meets_before = at.checked_sub(1).is_some_and(|before| service.map[before].1 >= low);
            if meets_before || service.map.get(at).is_some_and(|(after, ..)| *after <= high) {
                self.fault(key.span().start, &format!("PE {} is in two entries of the map", key.get_ref()));
                continue;
            }
            service.map.insert(at, (low, high, expression));
        }
    }

    /// An expression in one text, or a list of names that the logic of their kinds joins.
    fn expression(
        &mut self,
        service: &Service,
        value: &Value<'t>,
        exchanges: bool,
        products: bool,
    ) -> Option<Expression> {
        let find = |name: &str| {
            service.subservice(name).ok_or_else(|| {
                let known = service.subservices.iter().map(|(name, _)| &**name);
                format!("{} has no subservice {name:?}{}", service.name, nearest(name, known))
            })
        };
        let DeValue::Array(names) = value.get_ref() else {
            let text = self.string("what a PE or a name stands for", value)?;
            return Expression::parse(text, &find).map_err(|what| self.fault(value.span().start, &what)).ok();
        };
        let mut kinds: [Vec<Expression>; 3] = Default::default();
        for name in names {
            let text = self.string("a subservice", name)?;
            match find(text) {
                Ok(index) => {
                    let kind = service.subservices[usize::from(index)].1;
                    kinds[kind as usize].push(Expression::Subservice(index));
                }
                Err(what) => self.fault(name.span().start, &what),
            }
        }
        let [of_products, of_exchanges, specialists] = kinds;
        let join = |parts: Vec<Expression>, all: bool| match parts.len() {
            0 => None,
            1 => parts.into_iter().next(),
            _ if all => Some(Expression::And(parts)),
            _ => Some(Expression::Or(parts)),
        };
        let parts: Vec<Expression> =
            [join(of_products, products), join(of_exchanges, exchanges), join(specialists, true)]
                .into_iter()
                .flatten()
                .collect();
        let expression = join(parts, true);
        if expression.is_none() {
            self.fault(value.span().start, "a list without subservices: nobody could have it");
        }
        expression
    }

    /// A service's index by name; a fault where there is none.
    fn service_named(&mut self, key: &Spanned<std::borrow::Cow<'t, str>>) -> Option<u16> {
        let name = key.get_ref();
        let found = self.rights.service_index(name);
        if found.is_none() {
            let hint = nearest(name, self.rights.services.iter().map(|service| &*service.name));
            self.fault(key.span().start, &format!("there is no service {name}{hint}"));
        }
        found
    }

    fn grants(&mut self, value: Option<&Value<'t>>) -> Grants {
        let mut grants = Grants::new();
        let Some(table) = self.table("grants", value) else { return grants };
        for (key, value) in table {
            let Some(index) = self.service_named(key) else { continue };
            let mut grant = Grant::default();
            for entry in self.list("grants of a service", value) {
                grant.join(&self.grant(index, entry));
            }
            grants.insert(index, grant);
        }
        grants
    }

    /// One entry of a grant: `"*"`, a subservice, a PE code, a range.
    fn grant(&mut self, service: u16, value: &Value<'t>) -> Grant {
        let mut grant = Grant::default();
        let text = match value.get_ref() {
            DeValue::Integer(number) => number.as_str(),
            DeValue::String(text) => text,
            other => {
                let what = format!("a grant is a PE code, a range, a subservice or \"*\", not {}", other.type_str());
                self.fault(value.span().start, &what);
                return grant;
            }
        };
        let service = self.rights.service(service);
        if text == "*" {
            grant.all = true;
        } else if let Some(index) = service.subservice(text) {
            grant.subservices.push(index);
        } else if let Some(range) = range(text) {
            grant.pes.push(range);
        } else {
            let hint = nearest(text, service.subservices.iter().map(|(name, _)| &**name));
            let what = format!("{} has no subservice {text:?}, and that is no PE code{hint}", service.name);
            self.fault(value.span().start, &what);
        }
        grant
    }

    fn posts(&mut self, value: Option<&Value<'t>>) -> Vec<PostGrant> {
        let mut posts = Vec::new();
        let Some(table) = self.table("post", value) else { return posts };
        for (key, value) in table {
            let Some(service) = self.service_named(key) else { continue };
            let (names, rights) = match value.get_ref() {
                DeValue::Table(table) => {
                    let keys = self.entries("a right to post", table, &["names", "rights"]);
                    (keys.get("names").copied(), keys.get("rights").copied())
                }
                _ => (Some(value), None),
            };
            let mut post = PostGrant { service, names: Vec::new(), rights: PostRights::NONE };
            match names {
                None => post.names.push(Pattern::new("*")),
                Some(names) => {
                    for name in self.list("names", names) {
                        post.names.extend(self.pattern_of("a pattern of names", name));
                    }
                }
            }
            let known = [
                ("create", PostRights::CREATE),
                ("delete", PostRights::DELETE),
                ("modify_permissions", PostRights::MODIFY_PERMISSIONS),
            ];
            for right in rights.map_or(Vec::new(), |rights| self.list("rights", rights)) {
                let right = self.choice("a right to post", Some(right), &known).unwrap_or_default();
                post.rights = post.rights.with(right);
            }
            posts.push(post);
        }
        posts
    }

    /// Grants and rights to post of the groups named and of the entry itself.
    fn joined(&mut self, keys: &Keys<'_, 't>) -> (Vec<Box<str>>, Grants, Vec<PostGrant>) {
        let mut grants = self.grants(keys.get("grants").copied());
        let mut posts = self.posts(keys.get("post").copied());
        let mut groups: Vec<Box<str>> = Vec::new();
        for value in keys.get("groups").map_or(Vec::new(), |groups| self.list("groups", groups)) {
            let Some(name) = self.string("a group", value) else { continue };
            let Some((group, group_posts)) = self.rights.groups.get(name) else {
                let hint = nearest(name, self.rights.groups.keys().map(|name| &**name));
                self.fault(value.span().start, &format!("there is no group {name}{hint}"));
                continue;
            };
            for (service, grant) in group {
                grants.entry(*service).or_default().join(grant);
            }
            posts.extend_from_slice(group_posts);
            groups.push(name.into());
        }
        (groups, grants, posts)
    }

    /// The profile of a position or application, if it has one.
    fn own_profile(&mut self, keys: &Keys<'_, 't>) -> Option<GrantId> {
        let has_profile = keys.contains_key("groups") || keys.contains_key("grants");
        let (_, grants, _) = self.joined(keys);
        has_profile.then(|| self.intern(grants))
    }

    fn intern(&mut self, grants: Grants) -> GrantId {
        *self.known_grants.entry(grants).or_insert_with_key(|grants| {
            self.rights.grants.push(grants.clone());
            self.rights.grants.len() as GrantId - 1
        })
    }

    fn user(&mut self, name: &str, keys: &Keys<'_, 't>) {
        let (groups, grants, posts) = self.joined(keys);
        let mut bound = |key: &str| keys.get(key).and_then(|value| self.number(key, value));
        let limits =
            Limits { positions: bound("max_positions"), mounts: bound("max_mounts"), items: bound("item_limit") };
        let applications = keys.get("applications").map(|value| {
            let list = self.list("applications", value);
            list.into_iter().filter_map(|value| self.number("an application", value)).collect()
        });
        let positions = keys.get("positions").map(|value| {
            let list = self.list("positions", value);
            list.into_iter().filter_map(|value| self.pattern_of("a position", value)).collect()
        });
        let grants = self.intern(grants);
        self.rights.users.insert(name.into(), User { groups, grants, limits, applications, positions, posts });
    }
}

/// `62` or `100-199`.
fn range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

/// A hint at the name that is meant, when one is near.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let name = name.to_lowercase();
    let score = |known: &str| {
        let known = known.to_lowercase();
        // The first favours a common beginning, the second forgives two letters that changed places.
        strsim::jaro_winkler(&name, &known).max(strsim::normalized_damerau_levenshtein(&name, &known) + 0.1)
    };
    let scored = known.map(|known| (score(known), known));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((score, known)) if score > 0.7 => format!("; the nearest is {known}"),
        _ => String::new(),
    }
}
