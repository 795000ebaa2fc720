from vde_dagster.cli.entry import main

main()
