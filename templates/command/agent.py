import sys

# The task.
task = sys.stdin.read()

# To hand a part of it to another capsule, grant `delegate` in capsule.toml, then:
#
#   import json, os, subprocess
#
#   def call(*words):
#       command = [os.environ["TREEWARD"], "call", *words]
#       return json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).stdout)
#
#   child = call("delegate", "reader", "count the lines")
#   done = call("wait", str(child["index"]))      # {"status": "ok", "answer": …}

# What goes to standard error is kept, the end of it: it is shown where this fails.
print("working on it", file=sys.stderr)

# The answer. To say that it cannot be done: the reason to standard error, and sys.exit(65).
print(f"You said: {task}")
