#!/bin/sh
# Two people, a pull request, a merge: from a repository with ten models to production.
# Everything lies in a temporary folder; Git's own remote stands for the forge. Run: sh play.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
team=$(mktemp -d)
trap 'rm -rf "$team"' EXIT
export VDE_STATE_URL="sqlite:///$team/state.db" VDE_WAREHOUSE="$team/warehouse"
export GIT_AUTHOR_NAME=anna GIT_AUTHOR_EMAIL=anna@example.org
export GIT_COMMITTER_NAME=anna GIT_COMMITTER_EMAIL=anna@example.org
unset GITHUB_REPOSITORY GITHUB_EVENT_NAME GITLAB_CI || true

say() { printf '\n== %s (%s s)\n' "$*" "$(($(date +%s) - begin))"; }
begin=$(date +%s)

git init -q --bare -b main "$team/shop.git"
git clone -q "$team/shop.git" "$team/anna" 2>/dev/null
cp -R "$here/models" "$here/seeds" "$here/pyproject.toml" "$here/.gitignore" "$team/anna"
cd "$team/anna"
git checkout -q -b main
git add . && git commit -q -m "ten models" && git push -q origin main
vde apply prod --yes
say "Ten models are in production"

git checkout -q -b net
sed -i.bak 's/sum(amount) AS revenue/sum(amount * 0.8) AS revenue/' models/marts/customers.sql
rm models/marts/customers.sql.bak
git commit -q -a -m "customers' revenue is net" && git push -q origin net
vde ci check --pr 1
say "Anna's pull request has a comment"

git clone -q "$team/shop.git" "$team/bert" && cd "$team/bert"
git fetch -q origin 'refs/vde/*:refs/vde/*' 'refs/notes/*:refs/notes/*'
git log --notes=vde -1 origin/net
git merge -q --no-ff -m "merges net" origin/net && git push -q origin main
vde ci deploy
say "Bert merged it: production shows what the check built"

vde ci close --pr 1
sed -i.bak 's/ORDER BY revenue DESC/ORDER BY revenue/' models/marts/best.sql && rm models/marts/best.sql.bak
git commit -q -a -m "worst first" && git push -q origin main
status=0
vde ci deploy || status=$?
test "$status" -eq 3
say "Bert pushed what nobody saw: it waits for an approval"
