"""Makes Spark write local files without a child process and a checksum file for each.

Without its native library, Hadoop runs `chmod` for every new file and folder, which takes three
milliseconds or more. The checksums are not needed: Parquet's pages have their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_CLASS = "vde.LocalFiles"


def use_plain_files(context: SparkContext) -> None:
    """Stop Hadoop from running `chmod` and writing a checksum for each local file."""
    jvm: Any = context._jvm
    conf = context._jsc.hadoopConfiguration()
    # A configured file system stays.
    if conf.get("fs.file.impl") is not None or conf.get("fs.file.impl.disable.cache") == "true":
        return
    here = jvm.java.net.URI("file:///")
    current = jvm.org.apache.hadoop.fs.FileSystem.get(here, conf)
    if current.getRaw().getClass().getName() == _CLASS:
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name("LocalFiles.java").read_text("utf-8"))
    # Hadoop caches one file system for all local paths. This function replaces that object, because
    # the configuration could only name a class from a jar. The new object has the same class, over
    # another raw file system.
    raw = compiler.getClassLoader().loadClass(_CLASS).getDeclaredConstructor(None).newInstance(None)
    files = jvm.org.apache.hadoop.fs.LocalFileSystem(raw)
    files.initialize(here, conf)
    files.setWriteChecksum(False)
    kind = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FileSystem")
    keep = next(m for m in kind.getDeclaredMethods() if m.getName() == "addFileSystemForTesting")
    keep.setAccessible(True)
    arguments = context._gateway.new_array(jvm.java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = here, conf, files
    keep.invoke(None, arguments)
