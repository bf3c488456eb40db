//! From what an operator wrote to what the hot path runs.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::choose::{Precedence, Tests};
use super::counting::Counting;
use super::tier_limits::TierLimits;
use super::{CompiledRule, DEFAULT_V6_PREFIX, RuleSet};
use crate::config::DomainConfig;
use crate::key::{CounterKey, HashSecret, Part, Tag, counter_key};
use crate::matching::host::HostPattern;
use crate::matching::index::{Entry, Index};
use crate::matching::rank::Rank;
use crate::matching::template::Template;
use crate::matching::values::HeaderTest;
use crate::mistake::Mistakes;
use crate::name::Name;
use crate::rule::{Rule, RuleMode};

/// The one tier of a domain that has none.
const ONLY_TIER: &str = "default";

/// A rule's match, compiled; what of it the index does not already decide goes into its tests.
struct Matcher<'c> {
    rule: &'c Rule,
    /// The rule's place in the document.
    pointer: String,
    template: Option<Template>,
    hosts: Vec<HostPattern>,
    headers: Vec<HeaderTest>,
}

pub(super) fn rule_set(config: &DomainConfig, revision: u64) -> Result<RuleSet, Mistakes> {
    let mut mistakes = config.validate();
    let matchers = matchers(config, &mut mistakes);
    let positions = precedence_order(&matchers);
    let (tiers, default_tier) = tiers(config, &mut mistakes);
    let tier_positions: HashMap<Name, usize> = tiers.iter().cloned().zip(0..).collect();
    let mut groups: HashMap<Name, u32> = HashMap::new();
    let mut index = Index::default();
    let mut headers = HashSet::new();
    let mut rules = Vec::with_capacity(matchers.len());
    for (i, (matcher, position)) in matchers.into_iter().zip(positions).enumerate() {
        index.insert(&matcher.entry(u32::try_from(i).unwrap_or(u32::MAX)));
        let rule = matcher.rule;
        let defaults = &config.domain.defaults;
        let algorithm = rule.algorithm.or(defaults.algorithm).unwrap_or_default();
        let group = rule.group.as_ref().or(defaults.group.as_ref()).unwrap_or(&rule.name).clone();
        let next = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let precedence = Precedence { group: *groups.entry(group.clone()).or_insert(next), priority: rule.priority, position };
        let counting = Counting::compile(rule, matcher.template.as_ref()).map_err(|(part, error)| {
            let place = part.map_or_else(|| "cost_header".to_owned(), |part| format!("key/{part}"));
            mistakes.add(format!("{}/{place}", matcher.pointer), error);
        });
        let Ok(counting) = counting else { continue };
        headers.extend(matcher.headers.iter().map(HeaderTest::name).chain(counting.headers()).cloned());
        rules.push(CompiledRule {
            index: i,
            name: rule.name.clone(),
            group,
            mode: rule.mode,
            algorithm,
            on_failure: rule.on_failure.or(defaults.on_failure).unwrap_or_default(),
            overflow: counting.is_open_ended().then(|| overflow(config.domain.name.as_str(), rule.name.as_str())),
            enforce_percent: rule.enforce_percent,
            limits: TierLimits::compile(rule, algorithm, |tier| tier_positions.get(tier).copied()),
            tests: Tests { headers: matcher.headers, descriptors: rule.matches.descriptors.clone() },
            precedence,
            counting,
        });
    }
    let (domain, mode) = (config.domain.name.clone(), config.domain.mode);
    mistakes.into_result(RuleSet {
        revision,
        domain,
        tiers,
        rules,
        mode,
        tier_positions,
        default_tier,
        v6_prefix: DEFAULT_V6_PREFIX,
        index,
        headers,
    })
}

/// The counter of a rule that stands for all whose own may not be created. It never leaves an agent's memory, so its key is no secret.
fn overflow(domain: &str, rule: &str) -> CounterKey {
    let (secret, parts) = (HashSecret::built_in(), [Part { kind: "overflow", value: None }]);
    counter_key(&secret, Tag::of_rule(&secret, domain, rule, &parts), rule, &parts)
}

fn tiers(config: &DomainConfig, mistakes: &mut Mistakes) -> (Vec<Name>, usize) {
    let mut tiers: Vec<Name> = config.tiers.iter().map(|tier| tier.name.clone()).collect();
    if tiers.is_empty() {
        match Name::new(ONLY_TIER) {
            Ok(only) => tiers.push(only),
            Err(error) => mistakes.add("/tiers", error.to_string()),
        }
    }
    (tiers, config.tiers.iter().position(|tier| tier.default).unwrap_or_default())
}

/// The matchers of the rules that are not off.
fn matchers<'c>(config: &'c DomainConfig, mistakes: &mut Mistakes) -> Vec<Matcher<'c>> {
    let on = config.rules.iter().enumerate().filter(|(_, rule)| rule.mode != RuleMode::Off);
    on.filter_map(|(i, rule)| Matcher::compile(rule, format!("/rules/{i}"), mistakes)).collect()
}

/// For each matcher its position in the order of precedence; the greatest wins.
fn precedence_order(matchers: &[Matcher<'_>]) -> Vec<u32> {
    let ranks: BTreeSet<(Rank, usize)> =
        matchers.iter().enumerate().map(|(i, matcher)| (Rank::of(matcher.rule, matcher.template.as_ref()), i)).collect();
    let mut positions = vec![0; matchers.len()];
    for ((_, rule), position) in ranks.into_iter().zip(0..) {
        positions[rule] = position;
    }
    positions
}

impl<'c> Matcher<'c> {
    fn compile(rule: &'c Rule, pointer: String, mistakes: &mut Mistakes) -> Option<Self> {
        let mut note = |place: &str, error: String| mistakes.add(format!("{pointer}/match/{place}"), error);
        let template = rule.matches.path.as_deref().map(Template::parse).transpose();
        let template = template.map_err(|error| note("path", error.to_string())).ok()?;
        let hosts: Result<Vec<_>, _> = rule.matches.hosts.iter().map(|host| HostPattern::parse(host)).collect();
        let hosts = hosts.map_err(|error| note("hosts", error.to_string())).ok()?;
        let headers: Result<Vec<_>, _> = rule.matches.headers.iter().map(HeaderTest::compile).collect();
        let headers = headers.map_err(|error| note("headers", error)).ok()?;
        Some(Self { rule, pointer, template, hosts, headers })
    }

    fn entry(&self, rule: u32) -> Entry<'_> {
        let exact = |descriptor: &'c crate::rule::DescriptorMatch| {
            let value = descriptor.value.as_deref().filter(|value| !value.contains('*'))?;
            Some((descriptor.key.as_str(), value))
        };
        Entry {
            rule,
            template: self.template.as_ref(),
            hosts: &self.hosts,
            methods: &self.rule.matches.methods,
            descriptor: self.rule.matches.descriptors.iter().find_map(exact),
            header: self.headers.iter().find_map(HeaderTest::exact),
        }
    }
}
