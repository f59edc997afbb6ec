import copy
import json

from jsonschema import Draft202012Validator

from fresh.expg import Advice, Constraint, ToolGuidance, apply_guidance

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "send_parcel",
            "description": "Sends a parcel.",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {
                    "parcel_id": {"type": "string", "description": "The parcel."},
                    "speed": {"type": "string"},
                    "days": {"type": "integer"},
                },
                "required": ["parcel_id"],
            },
        },
    },
    {"type": "function", "name": "flat", "description": "Flat."},
    {"name": "anthropic", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"type": "web_search"},
    "not a tool",
]


def guidance(tool: str, *, stable: bool = False) -> ToolGuidance:
    constraint = Constraint(
        text="In 8 of 14 calls: the tool answered with an error.",
        parameters={"parcel_id": "Take parcel_id from an earlier result (6 of 6 calls).", "unknown": "x"},
        required=("speed", "unknown"),
        patterns={"parcel_id": "^[A-Z][0-9]{5}$", "days": "^x$"},
    )
    return ToolGuidance(
        tool=tool,
        advice=Advice(
            core_function="Sends it.",
            success_patterns=("send_parcel(parcel_id=<PARCEL_ID>) (3 of 4 calls without a fault)",),
            common_issues=("late (1 of 4 calls)",),
            best_practices="Be quick (3 of 4 calls).",
        ),
        experiences=14,
        selected=4,
        classes=2,
        quota=9,
        success_rate=0.75,
        mean_score=0.9,
        mean_seconds=1.25,
        stable=stable,
        constraint=constraint if stable else None,
    )


def test_dynamic_guidance_ends_the_description_and_touches_nothing_of_the_callers() -> None:
    before = copy.deepcopy(TOOLS)
    found = apply_guidance(TOOLS, {"send_parcel": guidance("send_parcel")})  # type: ignore[arg-type]
    assert before == TOOLS
    body = found[0]["function"]
    assert body["description"] == (
        "Sends a parcel.\n\n"
        "Experience with this tool (14 earlier calls):\n"
        "- Does: Sends it.\n"
        "- Worked: send_parcel(parcel_id=<PARCEL_ID>) (3 of 4 calls without a fault)\n"
        "- Failed: late (1 of 4 calls)\n"
        "- Best: Be quick (3 of 4 calls).\n"
        "- Numbers: success 75%, mean score 0.90, 1.2 s a call"
    )
    assert body["parameters"] == TOOLS[0]["function"]["parameters"]  # type: ignore[index]
    assert body["parameters"] is not TOOLS[0]["function"]["parameters"]  # type: ignore[index]
    assert found[1:] == TOOLS[1:] and found[1] is not TOOLS[1]


def test_stable_guidance_goes_into_the_schema() -> None:
    found = apply_guidance(TOOLS, {"send_parcel": guidance("send_parcel", stable=True)})  # type: ignore[arg-type]
    body = found[0]["function"]
    assert body["description"] == "Sends a parcel."
    schema = body["parameters"]
    assert schema["description"].startswith("Constraint from experience (14 earlier calls): In 8 of 14 calls")
    assert schema["required"] == ["parcel_id", "speed"]
    parcel = schema["properties"]["parcel_id"]
    assert parcel["pattern"] == "^[A-Z][0-9]{5}$"
    assert parcel["description"].startswith("The parcel.\n\nConstraint from experience: Take parcel_id")
    assert "pattern" not in schema["properties"]["days"]
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"parcel_id": "P00017", "speed": "slow"})
    assert not validator.is_valid({"parcel_id": "17", "speed": "slow"})
    assert not validator.is_valid({"parcel_id": "P00017"})


def test_applying_again_replaces_and_other_kinds_give_way() -> None:
    for first in (False, True):
        for second in (False, True):
            once = apply_guidance(TOOLS, {"send_parcel": guidance("send_parcel", stable=second)})  # type: ignore[arg-type]
            over = apply_guidance(TOOLS, {"send_parcel": guidance("send_parcel", stable=first)})  # type: ignore[arg-type]
            twice = apply_guidance(over, {"send_parcel": guidance("send_parcel", stable=second)})
            assert twice[0]["function"]["description"] == once[0]["function"]["description"]
            texts = json.dumps(twice[0])
            assert texts.count("earlier calls):") == 1


def test_other_shapes_of_tool_lists() -> None:
    found = apply_guidance(
        TOOLS,  # type: ignore[arg-type]
        {"flat": guidance("flat", stable=True), "anthropic": guidance("anthropic", stable=True)},
    )
    assert found[1]["parameters"]["description"].startswith("Constraint from experience")
    assert found[2]["input_schema"]["description"].startswith("Constraint from experience")
    assert "parameters" not in found[2]
    assert found[3:] == TOOLS[3:]


def test_a_tool_without_description_gets_one() -> None:
    (found,) = apply_guidance([{"name": "bare"}], {"bare": guidance("bare")})
    assert found["description"].startswith("Experience with this tool")
    (null,) = apply_guidance([{"name": "bare", "description": None}], {"bare": guidance("bare")})
    assert null["description"] == found["description"]


def test_guidance_is_plain_json() -> None:
    one = guidance("x", stable=True)
    assert ToolGuidance.model_validate(json.loads(one.model_dump_json())) == one
