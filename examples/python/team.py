import json, os, subprocess


def call(*words):
    command = [os.environ["TREEWARD"], "call", *words]
    return json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).stdout)


waiting = {call("delegate", "largest", "", "--lend", "input")["index"]: ("largest", "")}
for entry in os.scandir(os.environ["TREEWARD_DIR_INPUT"]):
    if entry.is_dir(follow_symlinks=False):
        child = call("delegate", "team", "", "--lend", f"input/{entry.name}=input")
    elif entry.is_file(follow_symlinks=False):
        child = call("delegate", "reader", entry.name, "--lend", "input")
    else:
        continue
    waiting[child["index"]] = ("team" if entry.is_dir() else "reader", entry.name)

total = {"files": 0, "lines": 0, "lost": []}
while waiting:
    done = call("wait-any", *map(str, waiting))
    capsule, name = waiting.pop(done["index"])
    if done["status"] != "ok":
        total["lost"].append(f"{capsule} {name}: {done['status']}")
    elif capsule == "largest":
        total["largest"] = done["answer"].strip()
    else:
        counted = json.loads(done["answer"])
        total["files"] += counted.get("files", 1)
        total["lines"] += counted["lines"]
        total["lost"] += [f"{name}/{lost}" for lost in counted.get("lost", [])]
print(json.dumps(total))
