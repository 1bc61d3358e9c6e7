//! Conditions of a login: so many a second of an address, and tokens.
//!
//! Tokens are JSON Web Tokens (RFC 7519) signed by RS256 or ES256, with keys from a JWKS file (RFC 7517) that is read again when it
//! changes. A token is taken from whoever signed it with one of the keys, so that only the algorithm that the key is for counts: what the token
//! says of its own algorithm chooses nothing (RFC 8725).

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::p2ps::{Authenticator, Credentials, Identity, Rejected, TokenLife};
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use rssl::ws::upgrade::Upgrade;
use rwf::StateCode;
use rwf::rdm::login;
use serde::Deserialize;
use serde_json::Value;

/// Longest token that is looked at, bytes.
const TOKEN_MAX: usize = 16 << 10;
/// Largest file of keys, bytes.
const KEYS_MAX: u64 = 1 << 20;
/// How often the file is looked at, nanoseconds: not more than once for so many logins.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// Addresses whose logins are counted apart; beyond it all others count as one.
const ADDRESSES_MAX: usize = 4096;
const SECOND: u64 = 1_000_000_000;

/// Checks logins.
#[derive(Debug)]
pub(super) struct Logins {
    rate: Rate,
    tokens: Option<TokenChecker>,
}

impl Logins {
    /// By the configuration; `None` if it leaves nothing to check.
    ///
    /// # Errors
    /// The file of keys cannot be used; the message says why.
    pub(super) fn from_config(c: &config::P2ps) -> io::Result<Option<Self>> {
        let rate = Rate { most: c.max_logins_per_address_per_second, addresses: HashMap::new() };
        let tokens = TokenChecker::from_config(c)?;
        Ok((tokens.is_some() || rate.most > 0).then_some(Self { rate, tokens }))
    }
}

impl Authenticator for Logins {
    fn reads_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    fn check(&mut self, now: u64, credentials: &Credentials<'_>) -> Result<Identity, Rejected> {
        if !self.rate.takes(now, credentials.address) {
            let most = self.rate.most;
            return Err(rejected(
                StateCode::DACS_MAX_LOGINS_REACHED,
                &format!("more than {most} logins a second from this address (max_logins_per_address_per_second)"),
            ));
        }
        match &mut self.tokens {
            Some(tokens) => tokens.check(now, credentials),
            None => Ok(Identity { user: credentials.name.unwrap_or_default().to_owned(), token: None }),
        }
    }
}

/// A refusal in the words that lseg-data looks for.
fn rejected(code: StateCode, why: &str) -> Rejected {
    Rejected { code, text: format!("Login Rejected. {}{}.", why[..1].to_uppercase(), &why[1..]) }
}

/// How many logins an address may try in a second.
#[derive(Debug)]
struct Rate {
    /// 0: any number.
    most: u32,
    /// When the second of an address began, and how many came in it.
    addresses: HashMap<IpAddr, (u64, u32)>,
}

impl Rate {
    fn takes(&mut self, now: u64, address: IpAddr) -> bool {
        if self.most == 0 {
            return true;
        }
        if self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.retain(|_, (since, _)| now < since.saturating_add(SECOND));
        }
        let room = self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&address);
        let address = if room { address } else { Ipv4Addr::UNSPECIFIED.into() };
        let (since, count) = self.addresses.entry(address).or_insert((now, 0));
        if now >= since.saturating_add(SECOND) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= self.most
    }
}

/// The conditions that tokens have to meet.
#[derive(Debug, Clone)]
struct Rules {
    /// Logins by name are refused.
    required: bool,
    /// `iss` is one of these; empty: whatever it is.
    issuers: Vec<String>,
    /// `aud` is or holds this; empty: whatever it is.
    audience: String,
    /// The claim that names the user.
    user_claim: String,
    /// How far clocks may differ, seconds.
    tolerance_s: u64,
}

/// Checks logins by the keys of a file.
struct TokenChecker {
    rules: Rules,
    path: PathBuf,
    keys: Vec<Key>,
    /// The file's state when it was read last, good or not.
    seen: Option<(SystemTime, u64)>,
    looked_at: u64,
}

impl fmt::Debug for TokenChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenChecker").field("path", &self.path).field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The point, uncompressed.
    P256(Vec<u8>),
}

impl Material {
    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RS256",
            Self::P256(_) => "ES256",
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
        }
    }
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// A token that holds.
#[derive(Debug, PartialEq, Eq)]
struct Claims {
    user: String,
    /// Seconds since 1970.
    expires: u64,
}

fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

/// The keys of a JWKS text; those of other kinds or uses are passed over.
fn keys_of(text: &[u8]) -> Result<Vec<Key>, String> {
    let set: KeySet = serde_json::from_slice(text).map_err(|e| format!("it is no JWKS: {e}"))?;
    let bytes = |member: &Option<String>| member.as_deref().and_then(decoded);
    let key = |jwk: Jwk| {
        if jwk.r#use.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
                Material::P256((x.len() == 32 && y.len() == 32).then(|| [&[4], &x[..], &y[..]].concat())?)
            }
            _ => return None,
        };
        jwk.alg.is_none_or(|alg| alg == material.algorithm()).then_some(Key { id: jwk.kid, material })
    };
    let keys: Vec<Key> = set.keys.into_iter().filter_map(key).collect();
    if keys.is_empty() { Err("it has no key for RS256 or ES256".to_owned()) } else { Ok(keys) }
}

/// Looks at a token at `now`, seconds since 1970.
fn check(token: &str, keys: &[Key], rules: &Rules, now: u64) -> Result<Claims, &'static str> {
    if token.len() > TOKEN_MAX {
        return Err("the token is too long");
    }
    let malformed = "that is no JSON Web Token";
    let (signed, signature) = token.rsplit_once('.').ok_or(malformed)?;
    let (head, claims) = signed.split_once('.').ok_or(malformed)?;
    let head: Head = decoded(head).and_then(|head| serde_json::from_slice(&head).ok()).ok_or(malformed)?;
    let signature = decoded(signature).ok_or(malformed)?;
    if head.crit.is_some() {
        return Err("the token wants something understood (crit) that is not");
    }
    if !matches!(head.alg.as_str(), "RS256" | "ES256") {
        return Err("the token is not signed by RS256 or ES256");
    }
    let fits = |key: &&Key| {
        key.material.algorithm() == head.alg && (head.kid.is_none() || key.id.is_none() || key.id == head.kid)
    };
    let mut fitting = keys.iter().filter(fits).peekable();
    if fitting.peek().is_none() {
        return Err("the token is signed with a key that is not known here");
    }
    if !fitting.any(|key| key.material.verifies(signed.as_bytes(), &signature)) {
        return Err("the token's signature is wrong");
    }
    let claims: Value = decoded(claims).and_then(|claims| serde_json::from_slice(&claims).ok()).ok_or(malformed)?;
    if !claims.is_object() {
        return Err(malformed);
    }
    claims_hold(&claims, rules, now)
}

fn claims_hold(claims: &Value, rules: &Rules, now: u64) -> Result<Claims, &'static str> {
    // Times may have a fraction. One that is no time refuses: passed over, it would grant what it was to forbid.
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(at) => at.as_f64().filter(|at| at.is_finite() && *at >= 0.0).map(|at| Some(at as u64)).ok_or(()),
    };
    let expires = time("exp").map_err(|()| "the token's end (exp) is no time: a number of seconds since 1970")?;
    let expires = expires.ok_or("the token says nothing of its end (exp)")?;
    if now >= expires.saturating_add(rules.tolerance_s) {
        return Err("the token has expired");
    }
    let from = time("nbf").map_err(|()| "the token's beginning (nbf) is no time: a number of seconds since 1970")?;
    if from.is_some_and(|from| from > now.saturating_add(rules.tolerance_s)) {
        return Err("the token does not hold yet (nbf)");
    }
    time("iat").map_err(|()| "when the token was issued (iat) is no time: a number of seconds since 1970")?;
    // Claims that are not asked for are looked at all the same: RFC 7519 says what types these have.
    if ["iss", "sub", "jti"].iter().any(|name| claims.get(*name).is_some_and(|claim| !claim.is_string())) {
        return Err("a name in the token (iss, sub, jti) is no text");
    }
    let is_audience = |claim: &Value| match claim {
        Value::Array(list) => list.iter().all(Value::is_string),
        other => other.is_string(),
    };
    if claims.get("aud").is_some_and(|claim| !is_audience(claim)) {
        return Err("whom the token is for (aud) is neither a text nor a list of texts");
    }
    let is = |claim: &Value, wanted: &str| claim.as_str() == Some(wanted);
    let issuer = claims.get("iss").unwrap_or(&Value::Null);
    if !rules.issuers.is_empty() && !rules.issuers.iter().any(|wanted| is(issuer, wanted)) {
        return Err("the token's issuer is not known here");
    }
    if !rules.audience.is_empty() {
        let audience = claims.get("aud").unwrap_or(&Value::Null);
        let among = |list: &Vec<Value>| list.iter().any(|one| is(one, &rules.audience));
        if !is(audience, &rules.audience) && !audience.as_array().is_some_and(among) {
            return Err("the token is for others than this server (aud)");
        }
    }
    let user = claims.get(&rules.user_claim).and_then(Value::as_str).filter(|user| !user.is_empty());
    let user = user.ok_or("the token does not name its user")?;
    Ok(Claims { user: user.to_owned(), expires })
}

impl TokenChecker {
    /// By the configuration; `None` if it names no keys.
    ///
    /// # Errors
    /// The file of keys cannot be used; the message says why.
    fn from_config(c: &config::P2ps) -> io::Result<Option<Self>> {
        if c.token_keys_file.is_empty() {
            return Ok(None);
        }
        let rules = Rules {
            required: c.token_required,
            issuers: c.token_issuers.clone(),
            audience: c.token_audience.clone(),
            user_claim: c.token_user_claim.clone(),
            tolerance_s: c.token_clock_tolerance_s.into(),
        };
        Self::open(Path::new(&c.token_keys_file), rules).map(Some)
    }

    /// By the keys of a file.
    ///
    /// # Errors
    /// It cannot be read, or has no usable key.
    fn open(path: &Path, rules: Rules) -> io::Result<Self> {
        let mut new = Self { rules, path: path.to_owned(), keys: Vec::new(), seen: None, looked_at: 0 };
        new.seen = new.stamp();
        new.keys = new.read().map_err(|why| {
            io::Error::new(io::ErrorKind::InvalidData, format!("token_keys_file {}: {why}", path.display()))
        })?;
        Ok(new)
    }

    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let about = fs::metadata(&self.path).ok()?;
        Some((about.modified().ok()?, about.len()))
    }

    fn read(&self) -> Result<Vec<Key>, String> {
        let about = fs::metadata(&self.path).map_err(|e| e.to_string())?;
        if about.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} bytes"));
        }
        keys_of(&config::read_named(&self.path).map_err(|e| e.to_string())?)
    }

    /// Reads the file again if it is another. A file that cannot be used leaves the keys as they are.
    fn follow(&mut self, now: u64) {
        if now < self.looked_at.saturating_add(LOOK_EVERY_NS) {
            return;
        }
        self.looked_at = now;
        let stamp = self.stamp();
        if stamp == self.seen {
            return;
        }
        self.seen = stamp;
        match self.read() {
            Ok(keys) => {
                tracing::info!("{} keys for tokens were read from {}", keys.len(), self.path.display());
                self.keys = keys;
            }
            Err(why) => tracing::warn!("{}: {why}; the keys for tokens stay those of before", self.path.display()),
        }
    }
}

impl Authenticator for TokenChecker {
    fn check(&mut self, now: u64, credentials: &Credentials<'_>) -> Result<Identity, Rejected> {
        self.follow(now);
        let Some(token) = credentials.token else {
            return match credentials.name {
                Some(name) if !self.rules.required => Ok(Identity { user: name.to_owned(), token: None }),
                _ => Err(rejected(StateCode::NOT_ENTITLED, "a token is wanted here: log in with NameType AuthnToken")),
            };
        };
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let claims = check(token, &self.keys, &self.rules, epoch.as_secs()).map_err(|why| {
            tracing::warn!("login from {} refused: {why}", credentials.address);
            rejected(StateCode::USER_UNKNOWN_TO_PERM_SYS, why)
        })?;
        let left = Duration::from_secs(claims.expires.saturating_add(self.rules.tolerance_s)).saturating_sub(epoch);
        // The next one is due when four fifths of what is left are over.
        let reissue_at = epoch.as_secs() + claims.expires.saturating_sub(epoch.as_secs()) / 5 * 4;
        let expires = now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        Ok(Identity { user: claims.user, token: Some(TokenLife { reissue_at, expires }) })
    }
}

/// The login that a client's cookies stand for, on the stream that such a login has.
pub(super) fn login_by_cookie(upgrade: &Upgrade, name: &str) -> Option<login::Request> {
    let token = upgrade.cookie(name).filter(|token| !token.is_empty())?;
    // The published examples and the guide differ in the name.
    let position = upgrade.cookie("position").or_else(|| upgrade.cookie("AuthPosition"));
    let attributes = login::Attributes {
        application_id: upgrade.cookie("applicationId").map(str::to_owned),
        position: position.map(str::to_owned),
        ..login::Attributes::default()
    };
    Some(login::Request {
        stream_id: -1,
        name_type: Some(login::name_type::AUTHENTICATION_TOKEN),
        authentication_token: Some(token.to_owned()),
        attributes,
        ..login::Request::default()
    })
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    const NOW: u64 = 1_900_000_000;

    fn rules() -> Rules {
        Rules {
            required: true,
            issuers: Vec::new(),
            audience: String::new(),
            user_claim: "sub".to_owned(),
            tolerance_s: 30,
        }
    }

    struct Issuer(EcdsaKeyPair, &'static str);

    impl Issuer {
        fn new(id: &'static str) -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap(), id)
        }

        fn jwk(&self) -> String {
            let point = self.0.public_key().as_ref();
            let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
            format!(r#"{{"kty":"EC","crv":"P-256","kid":"{}","use":"sig","x":"{x}","y":"{y}"}}"#, self.1)
        }

        fn sign(&self, head: &str, claims: &str) -> String {
            let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
            let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }

        fn token(&self, claims: &str) -> String {
            self.sign(&format!(r#"{{"alg":"ES256","kid":"{}"}}"#, self.1), claims)
        }
    }

    fn set(keys: &[String]) -> String {
        format!(r#"{{"keys":[{}]}}"#, keys.join(","))
    }

    #[test]
    fn a_token_holds_for_its_user_until_its_end() {
        let issuer = Issuer::new("a");
        let keys = keys_of(set(&[issuer.jwk()]).as_bytes()).unwrap();
        let token = issuer.token(r#"{"sub":"alice","exp":1900000060}"#);
        let claims = check(&token, &keys, &rules(), NOW);
        assert_eq!(claims, Ok(Claims { user: "alice".to_owned(), expires: 1_900_000_060 }));
        assert!(check(&token, &keys, &rules(), NOW + 89).is_ok());
        assert_eq!(check(&token, &keys, &rules(), NOW + 90), Err("the token has expired"));
    }

    #[test]
    fn what_is_wrong_with_a_token_is_said() {
        let (issuer, stranger) = (Issuer::new("a"), Issuer::new("a"));
        let keys = keys_of(set(&[issuer.jwk()]).as_bytes()).unwrap();
        let strict = Rules { issuers: vec!["https://id".to_owned()], audience: "feed".to_owned(), ..rules() };
        let good = r#"{"sub":"u","exp":1900000060,"iss":"https://id","aud":["x","feed"]}"#;
        assert!(check(&issuer.token(good), &keys, &strict, NOW).is_ok());
        for (token, why) in [
            (stranger.token(good), "signature"),
            (issuer.sign(r#"{"alg":"ES256","kid":"b"}"#, good), "key"),
            (issuer.sign(r#"{"alg":"none"}"#, good), "RS256"),
            (issuer.sign(r#"{"alg":"HS256"}"#, good), "RS256"),
            (issuer.sign(r#"{"alg":"RS256"}"#, good), "key"),
            (issuer.sign(r#"{"alg":"ES256","crit":["x"]}"#, good), "crit"),
            (issuer.token(r#"{"sub":"u"}"#), "exp"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"nbf":1900000040}"#), "nbf"),
            (issuer.token(r#"{"sub":"u","exp":"1900000060"}"#), "(exp) is no time"),
            (issuer.token(r#"{"sub":"u","exp":null}"#), "(exp) is no time"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"nbf":"1900000040"}"#), "(nbf) is no time"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"nbf":-1}"#), "(nbf) is no time"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"nbf":null}"#), "(nbf) is no time"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"iat":[]}"#), "(iat) is no time"),
            (issuer.token(r#"{"sub":7,"exp":1900000060}"#), "is no text"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"iss":["https://id"],"aud":"feed"}"#), "is no text"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"iss":"https://id","aud":{"feed":1}}"#), "(aud) is neither"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"iss":"https://id","aud":["feed",1]}"#), "(aud) is neither"),
            (issuer.token(r#"["sub","exp"]"#), "no JSON Web Token"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"iss":"https://other"}"#), "issuer"),
            (issuer.token(r#"{"sub":"u","exp":1900000060,"iss":"https://id","aud":"x"}"#), "aud"),
            (issuer.token(r#"{"exp":1900000060,"iss":"https://id","aud":"feed"}"#), "user"),
            ("x".to_owned(), "no JSON Web Token"),
            ("a.b.c".to_owned(), "no JSON Web Token"),
            ("a".repeat(TOKEN_MAX + 1), "too long"),
        ] {
            let found = check(&token, &keys, &strict, NOW).unwrap_err();
            assert!(found.contains(why), "{token}: {found}");
        }
        // A single character of the claims changed.
        let mut changed = issuer.token(good).into_bytes();
        let dot = changed.iter().position(|b| *b == b'.').unwrap();
        changed[dot + 4] ^= 1;
        assert!(check(&String::from_utf8(changed).unwrap(), &keys, &strict, NOW).is_err());
    }

    #[test]
    fn rsa_keys_count_as_well() {
        let keys = keys_of(include_bytes!("testdata/rsa.jwks.json")).unwrap();
        let token = include_str!("testdata/rsa.jwt").trim();
        assert_eq!(check(token, &keys, &rules(), NOW).unwrap().user, "alice");
        let other = keys_of(set(&[Issuer::new("rsa").jwk()]).as_bytes()).unwrap();
        assert!(check(token, &other, &rules(), NOW).is_err());
    }

    #[test]
    fn the_file_is_read_again_when_it_changes_and_not_when_it_breaks() {
        let (first, second) = (Issuer::new("1"), Issuer::new("2"));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), set(&[first.jwk()])).unwrap();
        let mut checker = TokenChecker::open(file.path(), rules()).unwrap();
        let mut now = 0;
        let mut takes = |checker: &mut TokenChecker, issuer: &Issuer| {
            now += LOOK_EVERY_NS;
            let token = issuer.token(r#"{"sub":"u","exp":4000000000}"#);
            let credentials = Credentials { name: None, token: Some(&token), address: [127, 0, 0, 1].into() };
            checker.check(now, &credentials).is_ok()
        };
        assert!(takes(&mut checker, &first) && !takes(&mut checker, &second));
        fs::write(file.path(), set(&[first.jwk(), second.jwk()])).unwrap();
        assert!(takes(&mut checker, &first) && takes(&mut checker, &second));
        fs::write(file.path(), "rubbish").unwrap();
        assert!(takes(&mut checker, &first) && takes(&mut checker, &second));
        fs::write(file.path(), set(&[second.jwk()])).unwrap();
        assert!(!takes(&mut checker, &first) && takes(&mut checker, &second));
    }

    #[test]
    fn an_address_may_try_so_often_in_a_second() {
        let mut rate = Rate { most: 2, addresses: HashMap::new() };
        let address = |n: u32| IpAddr::from(Ipv4Addr::from(n));
        assert_eq!([0, 1, 2].map(|at| rate.takes(at, address(1))), [true, true, false]);
        assert!(rate.takes(3, address(2)) && rate.takes(SECOND, address(1)));
        for n in 0..100_000 {
            rate.takes(SECOND + 5, address(n));
        }
        assert!(rate.addresses.len() <= ADDRESSES_MAX + 1);
        assert!(!rate.takes(SECOND + 6, address(1_000_000)), "those beyond the table count as one");
    }

    #[test]
    fn names_are_taken_where_tokens_are_not_required() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), set(&[Issuer::new("1").jwk()])).unwrap();
        let by_name = Credentials { name: Some("bob"), token: None, address: [127, 0, 0, 1].into() };
        let mut strict = TokenChecker::open(file.path(), rules()).unwrap();
        assert_eq!(strict.check(0, &by_name).unwrap_err().code, StateCode::NOT_ENTITLED);
        let mut lax = TokenChecker::open(file.path(), Rules { required: false, ..rules() }).unwrap();
        assert_eq!(lax.check(0, &by_name).unwrap(), Identity { user: "bob".to_owned(), token: None });
        let path = file.path().to_owned();
        drop(file);
        assert!(TokenChecker::open(&path, rules()).is_err());
    }
}
