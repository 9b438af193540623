"""The module file that tells Ivy which jars to bring."""

from collections.abc import Sequence

from local.versions import Jar

IVY_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


def dependency(jar: Jar, transitive: bool) -> str:
    # "default" is the jar itself with what it needs at run time; "runtime" alone leaves the jar out.
    needed = "default" if transitive else "master"
    return (
        f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}" '
        f'conf="needed->{needed}" transitive="{str(transitive).lower()}"/>'
    )


def ivy_module(jars: Sequence[Jar], transitive: bool) -> str:
    dependencies = "\n    ".join(dependency(jar, transitive) for jar in jars)
    return f"""\
<ivy-module version="2.0">
  <info organisation="sluice" module="embedded"/>
  <configurations><conf name="needed"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""
