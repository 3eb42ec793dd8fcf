# SPDX-License-Identifier: Apache-2.0
"""From a seed to a slow run with its applicable fixes: recipes.json, which docs/advice-bench.md explains."""
import json
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
JOINED = 0.4  # share of draws that have the faults of two recipes
VARIED = 0.5  # probability that an option that is no fault gets another value, too
FINAL_SEEDS = 1000  # from here on for published figures; those below are for development
PARTS = ("env", "limits")


def table():
    with open(os.path.join(HERE, "recipes.json"), encoding="utf-8") as file:
        return json.load(file)


def recipes():
    return table()["recipes"]


def fill(node, values):
    """Replaces each {NAME} for which there is a value; a text that is one such name becomes the value itself."""
    if isinstance(node, dict):
        return {key: fill(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [fill(value, values) for value in node]
    for name, value in values.items() if isinstance(node, str) else ():
        if node == "{" + name + "}":
            return value
        node = node.replace("{" + name + "}", str(value))
    return node


def settings(recipe):
    """What a recipe and its fixes set: options, variables, limits, and what runs beside it."""
    names = set(recipe["base"][1])
    for part in [recipe] + recipe["fixes"]:
        names |= set(part.get("set", {})) | {f"{own}.{name}" for own in PARTS for name in part.get(own, {})}
    return names | ({"beside"} if {"neighbour", "limits", "log", "cold"} & set(recipe) else set())


def may_join(first, other):
    """Do two slow recipes set nothing in common, of the same program with as many ranks? Equal variables are no conflict."""
    same = {f"env.{name}" for name, value in first.get("env", {}).items() if other.get("env", {}).get(name) == value}
    fixed = {f"env.{name}" for recipe in (first, other) for fix in recipe["fixes"] for name in fix.get("env", {})}
    alike = first["base"][0] == other["base"][0] and first.get("ranks", 1) == other.get("ranks", 1)
    slow = all(recipe["fixes"] and not {"neighbour", "as_it_is"} & set(recipe) for recipe in (first, other))
    return bool(alike and slow and first["name"] != other["name"] and not settings(first) & settings(other) - (same - fixed))


def join(first, other):
    """One run with the faults of both recipes."""
    joined = dict(first, name=f"{first['name']} + {other['name']}", fixes=first["fixes"] + other["fixes"])
    joined["base"] = [first["base"][0], first["base"][1] | other["base"][1]]
    joined["draw"] = first["draw"] | other["draw"]
    for part in PARTS:
        joined[part] = first.get(part, {}) | other.get(part, {})
    return joined | {name: other[name] for name in ("log", "cold") if name in other}


def rename(recipe, prefix):
    """Puts a prefix before the names of a recipe's parameters, so that two recipes have none in common."""
    return fill(recipe, {name: "{" + prefix + name + "}" for name in recipe["draw"]}) | {
        "draw": {prefix + name: choices for name, choices in recipe["draw"].items()}
    }


def plain(recipe):
    """A copy whose fixes say whether the recipe plants what they mend: the first one."""
    recipe = json.loads(json.dumps(recipe))
    for place, fix in enumerate(recipe["fixes"]):
        fix["planted"] = place == 0
    return recipe


def vary(recipe, choices, rng):
    """Gives options that neither the recipe nor its fixes set another value now and then. Returns what it set."""
    taken, chosen = settings(recipe), {}
    for option, values in choices.items():
        value = rng.choice(values)
        if rng.random() < VARIED and option not in taken:
            recipe["base"][1][option] = chosen[option.strip("-")] = value
    return chosen


def draw(seed):
    """The recipe of a seed, with its parameters filled in."""
    rng, told = random.Random(seed), table()
    known = [recipe for recipe in told["recipes"] if seed >= recipe.get("from", 0)]  # later ones leave earlier draws as they are
    recipe = plain(rng.choice(known))
    others = [other for other in known if may_join(recipe, other)]
    if others and rng.random() < JOINED:
        recipe = join(recipe, rename(plain(rng.choice(others)), "other_"))
    values = {name: rng.choice(choices) for name, choices in recipe.pop("draw").items()}
    varied = {} if "as_it_is" in recipe else vary(recipe, told["vary"][recipe["base"][0]], rng)
    return fill(recipe, values) | {"seed": seed, "values": values | varied}


def changed(recipe, fix):
    """The recipe with a fix applied (None: as it is): options, environment, neighbour, limits."""
    options, environment, limits = dict(recipe["base"][1]), dict(recipe.get("env", {})), dict(recipe.get("limits", {}))
    neighbour = recipe.get("neighbour")
    if fix:
        options.update(fix.get("set", {}))
        environment.update(fix.get("env", {}))
        limits.update(fix.get("limits", {}))
        neighbour = fix["neighbour"] if "neighbour" in fix else neighbour
    return options, environment, neighbour, {name: value for name, value in limits.items() if value is not None}
