package vde;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends RawLocalFileSystem {
  public void setPermission(Path path, FsPermission permission) throws IOException {
    if (permission.toShort() > 0777) {
      super.setPermission(path, permission);
    } else {
      Files.setPosixFilePermissions(
        pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }
  }
}
