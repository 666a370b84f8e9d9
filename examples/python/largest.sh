# The name of the largest file of the directory it was lent.
cd "$TREEWARD_DIR_INPUT" && find . -maxdepth 1 -type f -printf '%s %f\n' | sort -rn | head -n 1 | cut -d ' ' -f 2-
