"""From evidence to decision."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.decision import HURRIED, PASS, Block, Decision, Evidence, PolicyRule, ScoreUpdate, VisitorScore
from hedgerow.core.state import StateReply
from hedgerow.core.visit import ANSWERED, Visit
from hedgerow.policy.decision_policy import DAY, DecisionPolicy, PolicyThresholds
from hedgerow.policy.score import updated_score

ADDRESS = "192.0.2.1"
VISIT = Visit(100.0, ADDRESS, ADDRESS, ADDRESS, "GET", "/")
ANN = Visit(100.0, ADDRESS, "account:ann", ADDRESS, "GET", "/", account="ann")
RULES = {"trap": PolicyRule("detain", 60.0), "density": PolicyRule("refuse", 10.0)}
NOTHING = StateReply(None, ())


def evidence(weight: float = 1.0, detector: str = "density", key: str = "") -> Evidence:
    return Evidence(detector, f"{detector}-x", weight, "Why.", key)


def test_no_evidence_passes():
    assert DecisionPolicy(RULES).decide(VISIT, NOTHING, []) == (PASS, None)


def test_light_evidence_passes_and_is_kept():
    found = [evidence(0.4), evidence(0.5, "trap")]
    decision, block = DecisionPolicy(RULES).decide(VISIT, NOTHING, found)
    assert (decision.action, decision.evidence, block) == ("pass", tuple(found), None)
    assert decision.change is not None
    assert (decision.change.weight, decision.change.codes) == (0.9, ("density-x", "trap-x"))


@pytest.mark.parametrize(("weights", "action"), [([0.4, 0.6], "detain"), ([0.6, 0.4], "refuse"), ([1.0], "refuse")])
def test_weights_add_up_and_the_weightiest_detector_rules(weights, action):
    found = [evidence(weight, detector) for weight, detector in zip(weights, ("density", "trap"), strict=False)]
    decision, block = DecisionPolicy(RULES).decide(VISIT, NOTHING, found)
    assert decision.action == action
    assert decision.until == 100.0 + (60.0 if action == "detain" else 10.0)
    assert block == Block(ADDRESS, ADDRESS, 100.0, decision.until, action, max(found, key=lambda e: e.weight))
    assert decision.code == block.evidence.code


def test_the_block_is_of_whom_the_evidence_speaks_about():
    _, block = DecisionPolicy(RULES).decide(ANN, NOTHING, [evidence(key="192.0.2.0/24")])
    assert block is not None
    assert block.key == "192.0.2.0/24"


@pytest.mark.parametrize(
    ("strikes", "key"), [(0, "account:ann"), (1, "account:ann"), (2, "192.0.2.1/*"), (9, "192.0.2.1/*")]
)
def test_the_third_account_of_one_address_blocks_everyone_there(strikes, key):
    _, block = DecisionPolicy(RULES, strikes=3).decide(ANN, StateReply(None, (), strikes), [evidence()])
    assert block is not None
    assert block.key == key


def test_a_visitor_without_an_account_never_strikes():
    _, block = DecisionPolicy(RULES, strikes=1).decide(VISIT, StateReply(None, (), 5), [evidence()])
    assert block is not None
    assert block.key == ADDRESS


def test_a_rule_without_a_time_declines_one_visit_and_blocks_nobody():
    decision, block = DecisionPolicy({"prefetch": PolicyRule("refuse", 0.0)}).decide(
        VISIT, NOTHING, [evidence(detector="prefetch")]
    )
    assert (decision.action, decision.until, block) == ("refuse", 100.0, None)


def test_a_declined_visit_may_add_to_the_score_and_says_when_to_come_back():
    policy = DecisionPolicy({"haste": PolicyRule("refuse", 0.0, retry_after=10.0, adds=0.1)})
    decision, block = policy.decide(VISIT, NOTHING, [evidence(detector="haste")])
    assert (decision.action, decision.until, block) == ("refuse", 110.0, None)
    assert decision.change is not None
    assert (decision.change.weight, decision.change.codes, decision.change.suspicious) == (0.1, ("haste-x",), True)


def test_a_rule_may_challenge_as_often_as_the_day_allows_before_it_blocks():
    policy = DecisionPolicy({"density": PolicyRule("refuse", 10.0, challenges_first=True)})
    score, actions = None, []
    for at in (100.0, 101.0, 200.0, 300.0):
        visit = msgspec.structs.replace(VISIT, at=at)
        decision, block = policy.decide(visit, StateReply(None, (), score=score), [evidence()])
        actions.append((decision.action, block is not None))
        if decision.change is not None:
            score = updated_score(score, decision.change)
            assert (score.identity, round(score.total, 6)) == ("suspect", 1.0)
            if at > 100.0:
                score = updated_score(score, policy.cleared(ADDRESS, at))
    # The second visit is within the first challenge.
    assert actions == [("challenge", False)] * 3 + [("refuse", True)]


@pytest.mark.parametrize(
    ("visit", "thresholds"),
    [
        (VISIT, PolicyThresholds(suspects="refuse")),
        (VISIT, PolicyThresholds(suspects="pass")),
        (msgspec.structs.replace(VISIT, anomalies=(ANSWERED,)), PolicyThresholds()),
    ],
)
def test_who_cannot_be_challenged_is_blocked_at_once(visit, thresholds):
    policy = DecisionPolicy({"density": PolicyRule("refuse", 10.0, challenges_first=True)}, thresholds)
    decision, block = policy.decide(visit, NOTHING, [evidence()])
    assert (decision.action, decision.until) == ("refuse", 110.0)
    assert block is not None


def test_a_visit_during_a_block_starts_it_again():
    block = Block(ADDRESS, ADDRESS, 95.0, 105.0, "refuse", evidence())
    decision, renewed = DecisionPolicy(RULES).extend_block(VISIT, block)
    assert decision == Decision("refuse", (block.evidence,), 110.0)
    assert renewed == Block(ADDRESS, ADDRESS, 95.0, 110.0, "refuse", block.evidence)


def test_a_renewed_block_never_ends_earlier():
    block = Block(ADDRESS, ADDRESS, 95.0, 500.0, "refuse", evidence())
    decision, renewed = DecisionPolicy(RULES).extend_block(VISIT, block)
    assert decision.until == 500.0
    assert renewed == block


def test_without_renewal_a_block_ends_when_it_ends():
    block = Block(ADDRESS, ADDRESS, 95.0, 105.0, "detain", evidence(detector="trap"))
    assert DecisionPolicy(RULES, renew=False).extend_block(VISIT, block) == (
        Decision("detain", (block.evidence,), 105.0), None,
    )  # fmt: skip


# ---- Suspects


def visits(
    policy: DecisionPolicy,
    weights,
    *,
    gap: float = 1.0,
    score: VisitorScore | None = None,
    start: float = DAY,
    **fields,
):
    """Visits of one visitor with evidence of these weights: the actions, and the standing afterwards."""
    actions = []
    for n, weight in enumerate(weights):
        visit = msgspec.structs.replace(VISIT, at=start + n * gap, **fields)
        found = [evidence(weight, "trap")] if weight else []
        decision, block = policy.decide(visit, StateReply(None, (), 0, score), found)
        actions.append(decision.action if block is None else "block")
        score = updated_score(score, decision.change) if decision.change is not None else score
    return actions, score


def test_weights_of_many_visits_make_a_suspect():
    actions, score = visits(DecisionPolicy(RULES), [0.3] * 6)
    assert actions == ["pass"] * 3 + ["challenge"] * 3
    assert (score.identity, score.challenges) == ("suspect", 1)


def test_a_suspect_is_told_why():
    _, score = visits(DecisionPolicy(RULES), [0.3] * 3)
    decision = DecisionPolicy(RULES).decide(
        msgspec.structs.replace(VISIT, at=DAY + 4), StateReply(None, (), 0, score), [evidence(0.3)]
    )[0]
    assert decision.evidence[-1].text == "Suspected for trap-x (3 times), density-x."
    assert decision.code == "suspect"


def test_a_score_fades():
    policy = DecisionPolicy(RULES, PolicyThresholds(half_life=100.0))
    actions, _ = visits(policy, [0.3] * 29, gap=100.0)
    assert set(actions) == {"pass"}


def test_thirty_wrong_visits_in_a_day_make_a_suspect_however_far_apart():
    policy = DecisionPolicy(RULES, PolicyThresholds(half_life=1.0))
    actions, score = visits(policy, [0.05] * 31, gap=2000.0)
    assert actions == ["pass"] * 29 + ["challenge"] * 2
    assert score.suspicious_visits == 31


def test_wrong_visits_are_those_of_a_day():
    policy = DecisionPolicy(RULES, PolicyThresholds(half_life=1.0))
    actions, _ = visits(policy, [0.05] * 100, gap=4000.0)
    assert set(actions) == {"pass"}


def test_visits_of_little_weight_are_not_wrong():
    actions, score = visits(DecisionPolicy(RULES, PolicyThresholds(half_life=1.0)), [0.04] * 100)
    assert set(actions) == {"pass"}
    assert score.suspicious_visits == 0


def test_the_third_challenge_of_a_day_blocks():
    policy = DecisionPolicy(RULES)
    score = None
    for expected in ("challenge", "challenge", "block"):
        actions, score = visits(policy, [0.9, 0.9], score=score)
        assert actions[-1] == expected
        score = updated_score(score, policy.cleared(ADDRESS, DAY + 5))
        assert (score.identity, score.total, score.suspicious_visits) == ("person", 0.0, 0)
    _, score = visits(policy, [0.9, 0.9], score=score, start=DAY * 2)
    assert score.challenges == 1


def test_the_block_after_too_many_challenges_says_so_and_lasts():
    score = VisitorScore(at=DAY, day=1, challenges=2)
    visit = msgspec.structs.replace(VISIT, at=DAY + 1)
    decision, block = DecisionPolicy(RULES).decide(
        visit, StateReply(None, (), 0, score), [evidence(0.5), evidence(0.4)]
    )
    assert (decision.action, block) == ("pass", None)
    score = updated_score(score, decision.change)
    decision, block = DecisionPolicy(RULES).decide(visit, StateReply(None, (), 0, score), [evidence(0.5)])
    assert (decision.action, decision.code, decision.until) == ("refuse", "too-many-challenges", visit.at + DAY)
    assert block.evidence.text == "Needed a third challenge in one day. Suspected for density-x (3 times)."


def test_a_suspect_still_gets_the_images_of_its_pages():
    _, score = visits(DecisionPolicy(RULES), [0.9, 0.9])
    assert score.identity == "suspect"
    assert visits(DecisionPolicy(RULES), [0.0], score=score, kind="asset")[0] == ["pass"]
    assert visits(DecisionPolicy(RULES), [0.0], score=score, kind="call")[0] == ["challenge"]


def test_a_suspect_is_judged_again_when_half_has_faded():
    policy = DecisionPolicy(RULES, PolicyThresholds(half_life=100.0))
    _, score = visits(policy, [0.6, 0.6])
    assert visits(policy, [0.0], score=score, start=DAY + 90)[0] == ["challenge"]
    actions, score = visits(policy, [0.0], score=score, start=DAY + 200)
    assert (actions, score.identity) == (["pass"], "person")


@pytest.mark.parametrize(("suspects", "action"), [("refuse", "refuse"), ("pass", "pass")])
def test_what_is_done_with_suspects_is_a_setting(suspects, action):
    assert visits(DecisionPolicy(RULES, PolicyThresholds(suspects=suspects)), [0.9, 0.9])[0][-1] == action


@given(st.lists(st.tuples(st.floats(0, DAY), st.floats(0, 1)), max_size=20))
def test_suspicion_is_never_more_than_all_weights_and_never_negative(changes):
    score = None
    for at, weight in changes:
        score = updated_score(score, ScoreUpdate("x", at, int(at // DAY), 100.0, weight=weight, codes=("a",)))
        assert 0 <= score.total <= sum(w for _, w in changes) + 1e-9
    assert score is None or score.reasons == (("a", len(changes)),)


def test_reasons_are_bounded():
    score = None
    for n in range(100):
        score = updated_score(score, ScoreUpdate("x", float(n), 1, 100.0, weight=0.1, codes=(f"c{n}",)))
    assert [code for code, _ in score.reasons] == [f"c{n}" for n in range(92, 100)]


# ---- Again and again


@pytest.mark.parametrize(("before", "seconds"), [(0, 10.0), (1, 20.0), (2, 40.0), (3, 50.0), (5000, 50.0)])
def test_each_further_block_lasts_longer_up_to_a_limit(before, seconds):
    policy = DecisionPolicy(RULES, lengthen=2.0, longest=50.0)
    memory = StateReply(None, (), offences=((ADDRESS, before), ("192.0.2.0/24", 9)) if before else ())
    decision, block = policy.decide(VISIT, memory, [evidence()])
    assert block is not None
    assert (block.offence, block.until, decision.until) == (before + 1, 100.0 + seconds, 100.0 + seconds)
    _, renewed = policy.extend_block(msgspec.structs.replace(VISIT, at=105.0), block)
    assert renewed == msgspec.structs.replace(block, until=105.0 + seconds)


def test_a_rule_longer_than_the_limit_stays_as_it_is():
    _, block = DecisionPolicy(RULES, lengthen=2.0, longest=5.0).decide(
        VISIT, StateReply(None, (), offences=((ADDRESS, 3),)), [evidence()]
    )
    assert block is not None
    assert block.until == 110.0


def test_steady_evidence_does_not_grow_with_the_visits():
    """A client's headers are the same each time: who reads a hundred pages with curl has not done anything more."""
    one = DecisionPolicy({"headers": PolicyRule("refuse", 0.0, steady=True), "integrity": PolicyRule("refuse", 60.0)})
    steady = Evidence("headers", "x", 0.5, "X.")
    outcome = one.decide(VISIT, StateReply(None, ()), [steady])
    assert (outcome.decision.action, outcome.decision.change) == ("pass", None)
    added = Evidence("integrity", "y", 0.3, "Y.")
    outcome = one.decide(VISIT, StateReply(None, ()), [steady, added])
    assert outcome.decision.change.weight == 0.3
    assert outcome.decision.change.codes == ("y",)
    assert outcome.decision.action == "pass"
    known = VisitorScore(total=0.3, at=VISIT.at)
    assert one.decide(VISIT, StateReply(None, (), score=known), [added]).decision.action == "pass"
    assert one.decide(VISIT, StateReply(None, (), score=known), [steady, added]).decision.action == "challenge"
    assert one.decide(VISIT, StateReply(None, (), score=known), [steady]).decision.action == "pass"


# ---- What the watch finds


def come(policy: DecisionPolicy, score: VisitorScore | None, at: float = 100.0) -> tuple[str, VisitorScore | None]:
    """A visit without evidence: what is done, and the standing after it."""
    visit = msgspec.structs.replace(VISIT, at=at)
    outcome = policy.decide(visit, StateReply(None, (), score=score), [])
    change = outcome.decision.change
    return outcome.decision.action, updated_score(score, change) if change is not None else score


def test_a_visitor_flagged_by_the_watch_is_challenged_at_its_next_visit():
    policy = DecisionPolicy(RULES)
    score = updated_score(None, policy.flag(ADDRESS, 100.0, "depth-first", "path-depth-first"))
    assert (score.identity, score.challenges) == ("depth-first", 1)
    assert come(policy, score, 200.0) == ("challenge", score)
    action, after = come(policy, score, 100.0 + 3 * 3600.0)
    assert (action, after.identity) == ("pass", "person")


def test_a_visitor_flagged_three_times_a_day_is_blocked():
    policy, score = DecisionPolicy(RULES), None
    actions = []
    for n in range(3):
        at = 100.0 + 5.0 * n
        score = updated_score(score, policy.flag(ADDRESS, at, "suspect", "campaign"))
        actions.append(come(policy, score, at)[0])
        score = updated_score(score, policy.cleared(ADDRESS, at))
    assert actions == ["challenge", "challenge", "refuse"]


def test_a_suspect_that_the_watch_flags_too_is_challenged_once():
    policy = DecisionPolicy(RULES)
    score = updated_score(None, ScoreUpdate(ADDRESS, 100.0, 0, 3600.0, weight=1.0, identity="suspect", challenged=True))
    score = updated_score(score, policy.flag(ADDRESS, 101.0, "width-first", "path-width-first"))
    score = updated_score(score, policy.flag(ADDRESS, 102.0, "suspect", "campaign"))
    assert (score.identity, score.challenges) == ("width-first", 1)


def test_an_annotation_weighs_nothing():
    policy = DecisionPolicy(RULES)
    score = updated_score(None, policy.annotate(ADDRESS, 100.0, "path-random-like"))
    assert score.reasons == (("path-random-like", 1),)
    assert come(policy, score) == ("pass", score)


class Thorough(DecisionPolicy):
    """Works every standing out."""

    def _is_plainly_a_person(self, *_: object) -> bool:
        return False

    def _stays_a_person(self, *_: object) -> bool:
        return False


@given(
    score=st.none()
    | st.builds(
        VisitorScore,
        identity=st.sampled_from(["person", "suspect", "random-like"]),
        total=st.sampled_from([0.0, 1e-12, 0.4, 0.9, 0.99, 1.0, 3.0]),
        at=st.sampled_from([0.0, 50.0, 99.0, 100.0, 5_000.0, 90_000.0]),
        day=st.integers(0, 1),
        suspicious_visits=st.integers(0, 4),
        challenges=st.integers(0, 3),
    ),
    weights=st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.5]), max_size=3),
    detectors=st.lists(st.sampled_from(["density", "trap", "entry", "headers"]), min_size=3, max_size=3),
    thresholds=st.builds(
        PolicyThresholds, wrong_visits=st.integers(1, 4), suspects=st.sampled_from(["challenge", "refuse", "pass"])
    ),
    at=st.sampled_from([100.0, 90_000.0]),
)
def test_the_short_cut_for_persons_decides_as_the_whole_computation_does(score, weights, detectors, thresholds, at):
    rules = {
        **RULES,
        "headers": PolicyRule("refuse", 10.0, steady=True),
        "entry": PolicyRule("refuse", 10.0, records_entry=True),
    }
    visit = msgspec.structs.replace(VISIT, at=at)
    memory = StateReply(None, (), score=score)
    found = [evidence(weight, detector) for weight, detector in zip(weights, detectors, strict=False)]
    thorough = Thorough(rules, thresholds=thresholds).decide(visit, memory, found)
    assert DecisionPolicy(rules, thresholds=thresholds).decide(visit, memory, found) == thorough


# ---- Challenges that the visitor does not see

HOLDER = Visit(100.0, ADDRESS, "clearance:abc", ADDRESS, "GET", "/")


class Held:
    """The holder of a clearance, whose browser solves what it *solves*."""

    def __init__(self, *, solves: bool = True, visit: Visit = HOLDER) -> None:
        self.policy, self.score, self.solves, self.visit = DecisionPolicy(RULES), None, solves, visit
        self.today = 0

    def flag(self, code: str = "path-depth-first") -> None:
        self.visit = msgspec.structs.replace(self.visit, at=self.visit.at + 5.0)
        self.apply(self.policy.flag(self.visit.visitor, self.visit.at, "depth-first", code))

    def apply(self, change: ScoreUpdate | None) -> None:
        if change is not None:
            self.score = updated_score(self.score, change)

    def flag_reader(self, code: str = "path-turning") -> None:
        self.visit = msgspec.structs.replace(self.visit, at=self.visit.at + 5.0)
        self.apply(self.policy.flag_reader(self.visit.visitor, self.visit.at, code))

    def read(self, *codes: str) -> Decision:
        self.today += 1
        reply = StateReply(None, (), score=self.score, today=self.today)
        decision, _ = self.policy.decide(self.visit, reply, [Evidence("attention", code, 0.0, "") for code in codes])
        self.apply(decision.change)
        if decision.action != "refuse" and (decision.owes or decision.action == "challenge") and self.solves:
            self.apply(self.policy.cleared(self.visit.visitor, self.visit.at))
        return decision


def test_a_holder_pays_three_times_unseen_twice_seen_and_is_blocked_then():
    holder = Held()
    found = []
    for _ in range(6):
        holder.flag()
        found.append(holder.read())
        assert found[-1].action == "refuse" or holder.read().action == "pass", "it has paid"
    assert [one.action for one in found] == ["pass"] * 3 + ["challenge"] * 2 + ["refuse"]
    assert [one.owes for one in found] == [True] * 3 + [False] * 3
    assert [one.price for one in found[:5]] == [1, 2, 3, 4, 5]


def test_a_holder_that_does_not_pay_sees_the_challenge_after_a_few_pages():
    holder = Held(solves=False)
    holder.flag()
    actions = [holder.read().action for _ in range(20)]
    assert actions.index("challenge") == 15
    assert "pass" not in actions[15:]


@pytest.mark.parametrize(
    ("code", "codes"), [("path-turning", ()), ("window-turning", ("unattended",)), ("path-unhurried", ())]
)
def test_an_order_that_people_have_costs_silent_work_and_no_more(code, codes):
    reader = Held()
    found = []
    for _ in range(30):
        reader.flag_reader(code)
        found.append(reader.read(*codes))
    assert {(one.action, one.owes, one.price) for one in found} == {("pass", True, 2)}
    assert reader.score.challenges == 0, "at other evidence it begins with the first challenge"


@pytest.mark.parametrize(
    ("code", "codes", "prices"),
    [
        ("path-unhurried", ("unattended",), [2, 3, 4, 5]),
        ("path-turning", ("untouched",), [2, 3, 4, 5]),
        ("path-turning", ("beyond-k2",), [1, 2, 3, 4]),
    ],
)
def test_what_speaks_against_a_reader_makes_its_order_count(code, codes, prices):
    crawler = Held()
    found = []
    for _ in range(4):
        crawler.flag_reader(code)
        found.append(crawler.read(*codes))
    assert [one.price for one in found] == prices
    assert [one.action for one in found] == ["pass" if price <= 3 else "challenge" for price in prices]


@pytest.mark.parametrize(
    ("codes", "prices"),
    [
        ((), [2, 3, 4, 5]), (("unattended",), [2, 3, 4, 5]), (("untouched",), [3, 4, 5, 0]),
        (("attended",), [1, 1, 1, 1]),
    ],
)  # fmt: skip
def test_a_pace_that_nobody_keeps_and_a_driven_browser_cost_more_together(codes, prices):
    crawler, found = Held(), []
    for _ in range(4):
        crawler.flag(HURRIED)
        found.append(crawler.read(*codes))
    assert [one.price for one in found] == prices
    assert found[0].action == "pass", "the first is silent"
    assert (found[-1].action == "refuse") == (prices[-1] == 0)


@pytest.mark.parametrize(
    ("codes", "last"), [((), "challenge"), (("unattended",), "refuse"), (("beyond-k2",), "refuse")]
)
def test_who_reads_briskly_is_asked_again_and_not_blocked(codes, last):
    holder = Held()
    found = []
    for _ in range(10):
        holder.flag()
        holder.apply(holder.policy.annotate(HOLDER.visitor, holder.visit.at, "path-brisk"))
        found.append(holder.read(*codes))
    assert [one.action for one in found[:2]] == ["pass"] * 2
    assert found[-1].action == last
    assert max(one.price for one in found) == 5


def test_the_order_of_a_crawler_next_to_that_of_a_reader_counts():
    holder = Held(solves=False)
    holder.flag()
    holder.flag_reader()
    assert holder.read().price == 1
    assert holder.score.challenges == 1


def test_a_score_without_any_order_is_no_reader_s():
    holder = Held(solves=False)
    holder.score = VisitorScore("suspect", 1.5, HOLDER.at, 0, 0, 2, (("minted-for-another", 2), ("judged-person", 1)))
    assert holder.read().price == 2
    holder.score = msgspec.structs.replace(holder.score, challenges=3)
    assert holder.read().price == 3


def test_other_evidence_next_to_the_order_of_a_reader_counts():
    holder = Held(solves=False)
    holder.flag_reader()
    holder.apply(ScoreUpdate(HOLDER.visitor, HOLDER.at, 0, 3600.0, weight=0.4, codes=("typed-links",)))
    assert holder.read().price == 1
    assert holder.score.challenges == 1


def test_a_reader_whose_browser_is_slow_has_fifteen_pages_at_least():
    """The watch judges it twice meanwhile, and its window once."""
    reader = Held(solves=False)
    reader.flag_reader()
    actions = []
    for page in range(30):
        if page in {8, 10}:
            reader.flag_reader()
        actions.append(reader.read().action)
    assert 15 <= actions.index("challenge") <= 25


@pytest.mark.parametrize(("shown", "action"), [(1.0, "challenge"), (29.9, "challenge"), (30.0, "refuse")])
def test_after_thirty_challenges_without_an_answer_comes_a_block(shown, action):
    policy, asked = DecisionPolicy(RULES), Decision("challenge", price=5)
    decision, block = policy.unanswered(HOLDER, NOTHING, asked, shown)
    assert decision.action == action
    assert (block is not None) == (action == "refuse")
    if block is not None:
        assert (block.key, block.until, decision.code) == (HOLDER.visitor, HOLDER.at + DAY, "too-many-challenges")


def test_a_second_judgement_before_the_first_is_paid_costs_no_more():
    holder = Held(solves=False)
    holder.flag()
    holder.read()
    before = holder.score
    holder.flag()
    assert holder.score.total <= before.total
    assert holder.score.challenges == before.challenges


def test_a_judgement_right_after_a_solved_challenge_is_about_what_was_before():
    """Of many tabs that open at once, some are judged while the first has solved the challenge."""
    policy = DecisionPolicy(RULES)
    flags = [policy.flag("clearance:abc", at, "depth-first", "path-depth-first") for at in (100.0, 101.9, 102.1)]
    cleared = updated_score(updated_score(None, flags[0]), policy.cleared("clearance:abc", 100.0))
    assert updated_score(cleared, flags[1]) == cleared
    assert updated_score(cleared, flags[2]).challenges == 2


def test_that_holds_for_the_first_two_challenges_of_a_day():
    """A crawler that solves fast would else be judged for every second ten pages only."""
    policy, score, at = DecisionPolicy(RULES), None, 100.0
    for _ in range(12):
        at += 1.2
        score = updated_score(score, policy.flag("clearance:abc", at, "depth-first", "path-depth-first"))
        if score.identity != "person":
            score = updated_score(score, policy.cleared("clearance:abc", at))
    assert score.challenges == 10


def test_an_account_is_treated_like_a_holder():
    holder = Held(visit=ANN)
    holder.flag()
    assert holder.read().owes


def test_without_a_clearance_the_first_challenge_is_seen():
    stranger = Held(visit=VISIT, solves=False)
    stranger.today = 15
    stranger.flag()
    assert stranger.read().action == "challenge"


def test_where_every_page_is_paid_for_a_path_alone_challenges_nobody():
    """A browser without cookies: its pages do not count, because its script solves a calculation for each."""
    stranger = Held(visit=VISIT, solves=False)
    stranger.flag()
    assert stranger.read().action == "pass"


@pytest.mark.parametrize(
    ("reasons", "action"),
    [
        ((("path-random-like", 1), ("minted-for-another", 3)), "pass"),
        ((("path-random-like", 1), ("minted-for-another", 4)), "challenge"),
        ((("minted-for-another", 3),), "challenge"),
        ((("path-random-like", 1), ("unmarked", 30)), "pass"),
        ((("path-random-like", 1), ("unmarked", 30), ("enumerated", 1)), "challenge"),
        ((("unmarked", 30),), "challenge"),
        ((("path-random-like", 1), ("campaign", 1)), "challenge"),
    ],
)
def test_a_little_other_evidence_beside_the_order_of_pages_is_tolerated(reasons, action):
    stranger = Held(visit=VISIT, solves=False)
    stranger.flag()
    stranger.score = msgspec.structs.replace(stranger.score, reasons=reasons)
    assert stranger.read().action == action


def test_midnight_solves_no_challenge():
    """The count of challenges starts again with each day: a suspect of yesterday is about to get the first of today."""
    policy = DecisionPolicy(RULES)
    actions, score = visits(policy, [0.3] * 6, start=2 * DAY - 10)
    assert actions[-1] == "challenge"
    for detector, weight in (("trap", 0.3), ("density", 0.0)):
        visit = msgspec.structs.replace(VISIT, at=2 * DAY + 10)
        decision = policy.decide(visit, StateReply(None, (), 0, score), [evidence(weight, detector)]).decision
        assert (decision.action, decision.price) == ("challenge", 1)


def test_a_rule_may_set_the_lowest_price_of_its_challenges():
    policy = DecisionPolicy({"density": PolicyRule("challenge", 0.0, challenges_first=True, price=5)})
    holder = msgspec.structs.replace(VISIT, visitor="clearance:ab")
    first = policy.decide(holder, StateReply(None, ()), [evidence()]).decision
    assert (first.action, first.price, first.owes) == ("challenge", 5, False)
    score = VisitorScore("suspect", 1.0, holder.at, int(holder.at // DAY), challenges=5)
    later = policy.decide(holder, StateReply(None, (), score=score), [evidence()]).decision
    assert (later.action, later.price, later.owes) == ("challenge", 5, False)
